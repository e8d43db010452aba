// SPDX-License-Identifier: Apache-2.0
// The C face of the engine: checks what C cannot promise, and turns Results into codes and text.
#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "larder/transfer.h"
#include "larder/transfer_c.h"
#include "obs/metrics.h"
#include "transfer/config_file.h"

struct larder_transfer_engine {
  larder::obs::Registry registry;  // outlives the engine
  std::unique_ptr<larder::TransferEngine> engine;
  std::mutex inbox_mutex;
  // Taken from the engine and not handed out yet; refilled when empty, so at most 1024.
  std::deque<larder::Notification> inbox;
};

namespace larder {
namespace {

// ---- what was said ----

// Of this thread: a caller looks at it right after the call.
struct Said {
  std::string text;
  std::vector<std::pair<std::uint64_t, std::string>> requests;  // refused ones, by index
};
Said& said() {
  thread_local Said of_this_thread;
  return of_this_thread;
}

larder_code say(Code code, std::string_view text) noexcept {
  try {
    said().text.assign(text);
  } catch (const std::exception&) {
    said().text.clear();  // no memory for the text; the code is what matters
  }
  return static_cast<larder_code>(code);
}

// Runs a call's body. The text is set last: a callback may have made calls of its own meanwhile.
template <class Body>
larder_code guarded(Body body) noexcept {
  try {
    const Result<void> result = body();
    if (!result) return say(result.error().code(), result.error().message());
    said().text.clear();
    return LARDER_OK;
  } catch (const std::bad_alloc&) {
    return say(Code::kExhausted, "no memory left");
  } catch (const std::exception& error) {
    return say(Code::kInternal, error.what());
  } catch (...) {
    return say(Code::kInternal, "an unknown exception");
  }
}

// ---- checks ----

Result<void> need(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is NULL");
}

template <class Struct>
Result<void> sized(const Struct* value, std::string_view name) {
  LARDER_TRY(need(value, name));
  if (value->struct_size == sizeof(Struct)) return {};
  return fail(Code::kInvalidArgument, std::string(name) + ": a struct_size of " +
                                          std::to_string(value->struct_size) + ", " +
                                          std::to_string(sizeof(Struct)) + " is needed");
}

template <class Struct>
Result<void> unreserved(const Struct& value, std::string_view name) {
  if (value.reserved == 0) return {};
  return fail(Code::kInvalidArgument, std::string(name) + ": reserved is not 0");
}

Result<void> array(const void* first, std::uint64_t count, std::string_view name) {
  if (count == 0) return {};
  LARDER_TRY(need(first, name));
  if (count <= LARDER_ARRAY_MAX) return {};
  return fail(Code::kTooLarge, std::string(name) + ": " + std::to_string(count) +
                                   " elements; at most " + std::to_string(LARDER_ARRAY_MAX));
}

template <class Struct>
Result<void> sized_array(const Struct* first, std::uint64_t count, std::string_view name) {
  LARDER_TRY(array(first, count, name));
  for (std::uint64_t i = 0; i < count; ++i) LARDER_TRY(sized(&first[i], name));
  return {};
}

// Where text is handed out.
struct TextOut {
  char* text;
  std::uint64_t capacity;
  std::uint64_t* needed;

  Result<void> check() const {
    LARDER_TRY(need(needed, "needed"));
    return capacity == 0 ? Result<void>() : need(text, "text");
  }
  Result<void> put(std::string_view what) const {
    *needed = what.size() + 1;
    if (capacity == 0) return {};
    if (capacity < *needed) {
      return fail(Code::kTooLarge, "text: " + std::to_string(*needed) + " bytes are needed, not " +
                                       std::to_string(capacity));
    }
    std::memcpy(text, what.data(), what.size());
    text[what.size()] = '\0';
    return {};
  }
};

// A call on an engine.
template <class Body>
larder_code on(larder_transfer_engine* engine, Body body) noexcept {
  return guarded([&]() -> Result<void> {
    LARDER_TRY(need(engine, "engine"));
    return body(*engine->engine);
  });
}

// ---- conversions ----

std::string_view text_or(const char* text, std::string_view otherwise) {
  return text != nullptr ? std::string_view(text) : otherwise;
}

// What the engine cannot see in a request, or does not expect in one.
Result<void> check(const larder_transfer_request& request) {
  LARDER_TRY(unreserved(request, "request"));
  if (request.opcode <= LARDER_OPCODE_WRITE) return {};
  return fail(Code::kInvalidArgument, "the opcode is unknown");
}

TransferRequest request_of(const larder_transfer_request& from) {
  TransferRequest to;
  to.opcode = static_cast<Opcode>(from.opcode);
  to.local = from.local;
  to.target = SegmentId{from.target};
  to.target_offset = from.target_offset;
  to.length = from.length;
  to.intent = static_cast<Intent>(from.intent);
  to.traffic_class = static_cast<TrafficClass>(from.traffic_class);
  to.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(from.deadline_ns));
  to.trace_id = from.trace_id;
  to.policy = text_or(from.policy, "");
  to.transport_hint = static_cast<TransportType>(from.transport_hint);
  to.tenant = from.tenant;
  return to;
}

Result<NotifyAfter> notification_of(const larder_transfer_notification* from) {
  LARDER_TRY(sized(from, "notification"));
  LARDER_TRY(unreserved(*from, "notification"));
  LARDER_TRY(need(from->name, "the notification's name"));
  if (from->message_bytes > 0) LARDER_TRY(need(from->message, "the notification's message"));
  if (from->name_bytes >= LARDER_NOTIFICATION_NAME ||
      from->message_bytes > LARDER_NOTIFICATION_BYTES) {
    return fail(Code::kInvalidArgument,
                "a notification has a name of 1 to 255 bytes and a message of at most 65536");
  }
  NotifyAfter to;
  to.segment = SegmentId{from->segment};
  to.notification.name.assign(from->name, from->name_bytes);
  if (from->message_bytes > 0) {
    to.notification.message.assign(static_cast<const char*>(from->message), from->message_bytes);
  }
  return to;
}

void fill(larder_transfer_batch& to, const BatchStatus& from) {
  to = {};
  to.struct_size = sizeof(to);
  to.idle = from.idle() ? 1 : 0;
  to.all_completed = from.all_completed() ? 1 : 0;
  to.tasks = from.tasks;
  to.pending = from.pending;
  to.completed = from.completed;
  to.unquiet = from.unquiet;
}

void fill(larder_transfer_task& to, const TaskStatus& from) {
  to = {};
  to.struct_size = sizeof(to);
  to.outcome = static_cast<std::uint8_t>(from.outcome);
  to.quiescent = from.quiescent ? 1 : 0;
  to.transport = static_cast<std::uint8_t>(from.transport);
  to.code = static_cast<larder_code>(from.code);
  to.bytes = from.bytes;
}

void fill(larder_transfer_segment& to, const SegmentInfo& from) {
  to = {};
  to.struct_size = sizeof(to);
  to.type = static_cast<std::uint8_t>(from.type);
  to.same_process = from.same_process ? 1 : 0;
  to.same_machine = from.same_machine ? 1 : 0;
  to.incarnation = from.incarnation;
  to.bytes = from.bytes;
}

void fill(larder_transfer_buffer& to, const SegmentInfo::Buffer& from) {
  to = {};
  to.struct_size = sizeof(to);
  to.index = from.location.index;
  to.memory_type = static_cast<std::uint8_t>(from.location.type);
  to.address = from.address;
  to.bytes = from.bytes;
}

// ---- the larger calls ----

Result<void> start(Result<TransferConfig> config, larder_transfer_engine** out) {
  if (!config) return fail(std::move(config).error());
  auto made = std::make_unique<larder_transfer_engine>();
  config->metrics = &made->registry;
  LARDER_ASSIGN(made->engine, TransferEngine::create(std::move(*config)));
  *out = made.release();
  return {};
}

// Requests that are refused here go to the engine all the same, in a form that it refuses: it
// counts them, and the numbers of the others' tasks come out right.
Result<void> submit(TransferEngine& engine, BatchId batch, const larder_transfer_request* from,
                    std::uint64_t count, larder_transfer_result* results,
                    const NotifyAfter* after) {
  // Kept between calls, so that a submit does not allocate it; taken out meanwhile, since a
  // callback on this thread may submit too.
  thread_local std::vector<TransferRequest> kept;
  std::vector<TransferRequest> requests = std::move(kept);
  requests.clear();
  std::vector<std::pair<std::uint64_t, Error>> refused;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto fine = check(from[i]);
    requests.push_back(fine ? request_of(from[i]) : TransferRequest{});  // of no bytes
    if (!fine) refused.emplace_back(i, std::move(fine).error());
  }
  LARDER_ASSIGN(std::vector<SubmitResult> answers, engine.submit(batch, requests, after));
  kept = std::move(requests);
  for (auto& [index, error] : refused) answers[index] = {error.code(), 0, error.message()};
  auto& texts = said().requests;
  texts.clear();
  for (std::uint64_t i = 0; i < answers.size(); ++i) {
    results[i] = {sizeof(results[i]), static_cast<larder_code>(answers[i].code), answers[i].task,
                  0};
    if (answers[i].code != Code::kOk) texts.emplace_back(i, std::move(answers[i].message));
  }
  return {};
}

Result<void> receive(larder_transfer_engine& engine, larder_transfer_received& received,
                     void* message, std::uint64_t capacity) {
  const std::lock_guard lock(engine.inbox_mutex);
  if (engine.inbox.empty()) {
    for (Notification& one : engine.engine->receive_notifications()) {
      engine.inbox.push_back(std::move(one));
    }
  }
  if (engine.inbox.empty()) return fail(Code::kNotFound, "no notification has come in");
  const Notification& oldest = engine.inbox.front();
  received = {};
  received.struct_size = sizeof(received);
  const std::size_t name = std::min<std::size_t>(oldest.name.size(), sizeof(received.name) - 1);
  received.name_bytes = static_cast<std::uint32_t>(name);
  std::memcpy(received.name, oldest.name.data(), name);
  received.message_bytes = oldest.message.size();
  if (oldest.message.size() > capacity) {
    return fail(Code::kTooLarge, "the message has " + std::to_string(oldest.message.size()) +
                                     " bytes, not " + std::to_string(capacity));
  }
  if (!oldest.message.empty()) std::memcpy(message, oldest.message.data(), oldest.message.size());
  engine.inbox.pop_front();
  return {};
}

}  // namespace
}  // namespace larder

using namespace larder;

// ---- what was said ----

const char* larder_transfer_last_error(void) {
  return said().text.c_str();
}

const char* larder_transfer_request_error(uint64_t index) {
  const auto& texts = said().requests;
  const auto found = std::lower_bound(texts.begin(), texts.end(), index,
                                      [](const auto& one, uint64_t at) { return one.first < at; });
  return found != texts.end() && found->first == index ? found->second.c_str() : "";
}

const char* larder_transfer_code_name(larder_code code) {
  // The names are literals, so they end with a NUL.
  return code_name(static_cast<Code>(std::min<larder_code>(code, 0xffff))).data();
}

// ---- engines ----

larder_code larder_transfer_create(const char* path, larder_transfer_engine** engine) {
  return guarded([&]() -> Result<void> {
    LARDER_TRY(need(engine, "engine"));
    *engine = nullptr;
    if (path == nullptr) return start(TransferConfig{}, engine);
    return start(transfer::load_config(path), engine);
  });
}

larder_code larder_transfer_create_from_text(const char* text, larder_transfer_engine** engine) {
  return guarded([&]() -> Result<void> {
    LARDER_TRY(need(engine, "engine"));
    *engine = nullptr;
    LARDER_TRY(need(text, "text"));
    return start(transfer::parse_config(text, "configuration"), engine);
  });
}

void larder_transfer_destroy(larder_transfer_engine* engine) {
  static_cast<void>(guarded([&]() -> Result<void> {
    delete engine;
    return {};
  }));
}

larder_code larder_transfer_address(larder_transfer_engine* engine, uint32_t index, char* text,
                                    uint64_t capacity, uint64_t* needed) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    const TextOut out{text, capacity, needed};
    LARDER_TRY(out.check());
    const std::vector<std::string> addresses = with.addresses();
    if (index < addresses.size()) return out.put(addresses[index]);
    return fail(Code::kNotFound,
                "the engine has " + std::to_string(addresses.size()) + " addresses");
  });
}

larder_code larder_transfer_quarantined_bytes(larder_transfer_engine* engine, uint64_t* bytes) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(bytes, "bytes"));
    *bytes = with.quarantined_bytes();
    return {};
  });
}

larder_code larder_transfer_metrics(larder_transfer_engine* engine, char* text, uint64_t capacity,
                                    uint64_t* needed) {
  return on(engine, [&](TransferEngine&) -> Result<void> {
    const TextOut out{text, capacity, needed};
    LARDER_TRY(out.check());
    return out.put(engine->registry.text());
  });
}

// ---- memory ----

larder_code larder_transfer_register_memory(larder_transfer_engine* engine,
                                            const larder_transfer_range* ranges, uint64_t count) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(sized_array(ranges, count, "ranges"));
    std::vector<MemoryRange> all;
    for (uint64_t i = 0; i < count; ++i) {
      LARDER_TRY(unreserved(ranges[i], "ranges"));
      all.push_back({ranges[i].address, ranges[i].bytes, text_or(ranges[i].location, "*")});
    }
    return with.register_memory(all);
  });
}

larder_code larder_transfer_unregister_memory(larder_transfer_engine* engine,
                                              void* const* addresses, uint64_t count) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(array(addresses, count, "addresses"));
    return with.unregister_memory(std::span(addresses, count));
  });
}

larder_code larder_transfer_allocate_memory(larder_transfer_engine* engine, uint64_t bytes,
                                            const char* location, void** address) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(address, "address"));
    LARDER_ASSIGN(*address, with.allocate_memory(bytes, text_or(location, "cpu:0")));
    return {};
  });
}

larder_code larder_transfer_free_memory(larder_transfer_engine* engine, void* address) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(address, "address"));
    return with.free_memory(address);
  });
}

// ---- segments ----

larder_code larder_transfer_open_segment(larder_transfer_engine* engine, const char* name,
                                         uint64_t* segment) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(name, "name"));
    LARDER_TRY(need(segment, "segment"));
    LARDER_ASSIGN(const SegmentId opened, with.open_segment(name));
    *segment = opened.value;
    return {};
  });
}

larder_code larder_transfer_close_segment(larder_transfer_engine* engine, uint64_t segment) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    return with.close_segment(SegmentId{segment});
  });
}

larder_code larder_transfer_segment_info(larder_transfer_engine* engine, uint64_t segment,
                                         larder_transfer_segment* info,
                                         larder_transfer_buffer* buffers, uint64_t capacity,
                                         uint64_t* needed) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(sized(info, "info"));
    LARDER_TRY(need(needed, "needed"));
    if (capacity > 0) LARDER_TRY(sized(buffers, "buffers"));
    LARDER_ASSIGN(const SegmentInfo found, with.segment_info(SegmentId{segment}));
    fill(*info, found);
    *needed = found.buffers.size();
    if (capacity == 0) return {};
    if (capacity < *needed) {
      return fail(Code::kTooLarge, "buffers: " + std::to_string(*needed) + " are needed, not " +
                                       std::to_string(capacity));
    }
    for (std::size_t i = 0; i < found.buffers.size(); ++i) fill(buffers[i], found.buffers[i]);
    return {};
  });
}

larder_code larder_transfer_segment_name(larder_transfer_engine* engine, uint64_t segment,
                                         char* text, uint64_t capacity, uint64_t* needed) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    const TextOut out{text, capacity, needed};
    LARDER_TRY(out.check());
    LARDER_ASSIGN(const SegmentInfo found, with.segment_info(SegmentId{segment}));
    return out.put(found.name);
  });
}

larder_code larder_transfer_probe(larder_transfer_engine* engine, uint64_t segment,
                                  int64_t* nanoseconds) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(nanoseconds, "nanoseconds"));
    LARDER_ASSIGN(const auto took, with.probe_peer(SegmentId{segment}));
    *nanoseconds = took.count();
    return {};
  });
}

// ---- transfers ----

larder_code larder_transfer_allocate_batch(larder_transfer_engine* engine, uint64_t tasks_max,
                                           uint64_t* batch) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(batch, "batch"));
    LARDER_ASSIGN(const BatchId allocated, with.allocate_batch(tasks_max));
    *batch = allocated.value;
    return {};
  });
}

larder_code larder_transfer_free_batch(larder_transfer_engine* engine, uint64_t batch) {
  return on(engine,
            [&](TransferEngine& with) -> Result<void> { return with.free_batch(BatchId{batch}); });
}

larder_code larder_transfer_submit(larder_transfer_engine* engine, uint64_t batch,
                                   const larder_transfer_request* requests, uint64_t count,
                                   larder_transfer_result* results,
                                   const larder_transfer_notification* after) {
  said().requests.clear();
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(sized_array(requests, count, "requests"));
    if (count > 0) LARDER_TRY(sized(results, "results"));
    NotifyAfter notify;
    if (after != nullptr) {
      LARDER_ASSIGN(notify, notification_of(after));
    }
    return submit(with, BatchId{batch}, requests, count, results,
                  after != nullptr ? &notify : nullptr);
  });
}

larder_code larder_transfer_poll(larder_transfer_engine* engine, uint64_t batch, uint32_t task,
                                 larder_transfer_task* status) {
  TaskStatus found;
  const larder_code code = on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(sized(status, "status"));
    LARDER_ASSIGN(found, with.poll(BatchId{batch}, task));
    fill(*status, found);
    return {};
  });
  return code != LARDER_OK ? code : say(Code::kOk, found.message);
}

larder_code larder_transfer_poll_batch(larder_transfer_engine* engine, uint64_t batch,
                                       larder_transfer_batch* status) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(sized(status, "status"));
    LARDER_ASSIGN(const BatchStatus found, with.poll(BatchId{batch}));
    fill(*status, found);
    return {};
  });
}

larder_code larder_transfer_wait(larder_transfer_engine* engine, uint64_t batch, int64_t timeout_ns,
                                 larder_transfer_batch* status) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    if (status != nullptr) LARDER_TRY(sized(status, "status"));
    auto result = with.wait(BatchId{batch}, std::chrono::nanoseconds(timeout_ns));
    if (result) {
      if (status != nullptr) fill(*status, *result);
      return {};
    }
    if (status != nullptr && result.error().code() == Code::kDeadlineExceeded) {
      const auto now = with.poll(BatchId{batch});
      if (now) fill(*status, *now);
    }
    return fail(std::move(result).error());
  });
}

larder_code larder_transfer_subscribe(larder_transfer_engine* engine, uint64_t batch,
                                      larder_transfer_idle idle, void* context,
                                      larder_transfer_release release) {
  return guarded([&]() -> Result<void> {
    // Releases when the last copy of the callback is gone, also one that runs just now.
    const std::shared_ptr<void> held(context, [release](void* mine) {
      if (release != nullptr) release(mine);
    });
    LARDER_TRY(need(engine, "engine"));
    if (idle == nullptr) return fail(Code::kInvalidArgument, "idle is NULL");
    return engine->engine->subscribe(
        BatchId{batch}, [idle, held](BatchId which) { idle(held.get(), which.value); });
  });
}

larder_code larder_transfer_event_fd(larder_transfer_engine* engine, uint64_t batch, int32_t* fd) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_TRY(need(fd, "fd"));
    LARDER_ASSIGN(*fd, with.event_fd(BatchId{batch}));
    return {};
  });
}

larder_code larder_transfer_cancel(larder_transfer_engine* engine, uint64_t batch, uint32_t task) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    return with.cancel(BatchId{batch}, task);
  });
}

larder_code larder_transfer_explain(larder_transfer_engine* engine, uint64_t batch, uint32_t task,
                                    char* text, uint64_t capacity, uint64_t* needed) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    const TextOut out{text, capacity, needed};
    LARDER_TRY(out.check());
    LARDER_ASSIGN(const std::string json, with.explain(BatchId{batch}, task));
    return out.put(json);
  });
}

// ---- notifications ----

larder_code larder_transfer_send_notification(larder_transfer_engine* engine,
                                              const larder_transfer_notification* notification) {
  return on(engine, [&](TransferEngine& with) -> Result<void> {
    LARDER_ASSIGN(const NotifyAfter what, notification_of(notification));
    return with.send_notification(what.segment, what.notification);
  });
}

larder_code larder_transfer_receive_notification(larder_transfer_engine* engine,
                                                 larder_transfer_received* received, void* message,
                                                 uint64_t capacity) {
  return on(engine, [&](TransferEngine&) -> Result<void> {
    LARDER_TRY(sized(received, "received"));
    if (capacity > 0) LARDER_TRY(need(message, "message"));
    return receive(*engine, *received, message, capacity);
  });
}
