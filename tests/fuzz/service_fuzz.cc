// SPDX-License-Identifier: Apache-2.0
// One operation of the node (FUZZ_OP is its wire::Op) against a small store: a body of arbitrary
// bytes, or one repaired so that it gets past the first checks, and payload in arbitrary cuts.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "larder.pb.h"
#include "node/device_control.h"
#include "node/request_service.h"
#include "node/store_core.h"
#include "obs/metrics.h"
#include "tests/fuzz/fuzz_input.h"
#include "wire/key_stream.h"
#include "wire/keys.h"
#include "wire/message.h"

using larder::fuzz::bytes_of;
using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace node = larder::node;
namespace pb = larder::pb;
namespace rpc = larder::rpc;
namespace wire = larder::wire;

namespace {

constexpr auto kOp = static_cast<wire::Op>(FUZZ_OP);
constexpr std::uint64_t kCapacity = 1 << 20;
constexpr std::size_t kBufferBytes = wire::kWindowDataAt + 65536;
constexpr std::array<std::string_view, 8> kNames = {"a", "ab", "abc", "b", "key-5", "k6", "", "zz"};

// Devices that check what reaches them.
class CheckedDevices final : public node::DeviceControl {
 public:
  larder::Result<std::vector<node::DeviceStatus>> list() override {
    return std::vector<node::DeviceStatus>(2);
  }
  larder::Result<node::DeviceStatus> add(const std::string& path, std::uint64_t size) override {
    require(path.starts_with('/') && path.size() <= wire::kDeviceNameBytesMax, "an absolute path");
    for (const char c : path) require(static_cast<unsigned char>(c) >= 0x20, "and a clean one");
    if (size % 2 == 0) return larder::fail(larder::Code::kConflict, "not this one");
    node::DeviceStatus device;
    device.path = path;
    return device;
  }
  larder::Result<node::DeviceStatus> drain(const std::string& id) override { return check(id); }
  larder::Result<node::DeviceStatus> disable(const std::string& id) override { return check(id); }
  larder::Result<node::DeviceStatus> enable(const std::string& id) override { return check(id); }
  larder::Result<void> remove(const std::string& id) override {
    static_cast<void>(check(id));
    return {};
  }

 private:
  static node::DeviceStatus check(const std::string& id) {
    require(larder::tier::is_device_id(id), "a device's id");
    node::DeviceStatus device;
    device.id = id;
    return device;
  }
};

// Waits for an answer that another thread makes.
class LateAnswer final : public rpc::ReplyTaker {
 public:
  void take(const wire::FrameHeader& request, rpc::Reply reply) override {
    reply_ = std::move(reply);
    taken_.store(true);
    taken_.notify_all();
  }
  bool wanted() const noexcept override { return true; }
  rpc::Reply wait() {
    taken_.wait(false);
    return std::move(reply_);
  }

 private:
  rpc::Reply reply_;
  std::atomic<bool> taken_{false};
};

const node::StoreMetrics& metrics() {
  static larder::obs::Registry registry;
  static const node::StoreMetrics made = node::register_store_metrics(registry).value();
  return made;
}

void open_store(node::StoreCore& core) {
  larder::tier::HotOptions options;
  options.capacity = kCapacity;
  options.pages = larder::tier::PageMode::k4K;
  options.populate = false;
  options.objects_max = 64;
  core.id = "fuzz:1";
  core.clock = &larder::env::system_clock();
  core.hot = larder::tier::HotStore::create(options).value();
  core.routes = std::make_unique<larder::route::RouteTable>(1);
  core.hot->set_authority(*core.routes);
  core.metrics = metrics();
  core.transfers = std::make_unique<larder::qos::ManagedTransfers>(nullptr);
  static CheckedDevices devices;
  core.devices = &devices;
}

// One for all inputs: making one costs more than most requests. Never destroyed, as nothing here
// is.
node::StoreCore& shared_store() {
  static node::StoreCore& core = *[] {
    auto* made = new node::StoreCore();
    open_store(*made);
    return made;
  }();
  return core;
}

// Each input begins with the same objects, and leaves nothing behind.
void empty_store(node::StoreCore& core) {
  std::vector<std::pair<std::uint32_t, std::string>> keys;
  std::vector<std::uint64_t> hashes;
  core.routes->scan(0, [&](const larder::route::Entry& entry) {
    keys.emplace_back(entry.space(), std::string(entry.key()));
    hashes.push_back(entry.hash());
    return true;
  });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    require(core.routes->remove({keys[i].first, keys[i].second, hashes[i]}, {}).has_value(),
            "what is listed can be removed");
  }
  require(core.routes->size() == 0 && core.hot->used() == 0, "removed bytes are free again");
}

void store_value(node::StoreCore& core, std::string_view key, std::string_view value) {
  const auto space = core.spaces.intern("t", "d", "s").value();
  auto room = core.hot->reserve(value.size()).value();
  std::memcpy(room.data(), value.data(), value.size());
  std::uint64_t version = 0;
  core.hot->publish(larder::route::key_in(space, key), 0, room, larder::checksum64(bytes_of(value)),
                    version);
}

// A window of shared memory like a client's; its id is given to requests that name any.
std::pair<std::uint64_t, std::shared_ptr<void>> offer_buffer(node::StoreCore& core) {
  larder::env::Fd fd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(fd.valid() && ::ftruncate(fd.get(), kBufferBytes) == 0, "a memfd");
  const std::uint64_t magic = wire::kWindowMagic;
  require(::pwrite(fd.get(), &magic, sizeof(magic), 0) == sizeof(magic), "a written memfd");
  require(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "a sealed memfd");
  return core.buffers.adopt(std::move(fd), kBufferBytes).value();
}

void pick_keys(FuzzInput& input, pb::Keys& keys) {
  std::vector<std::string_view> names;
  for (std::size_t count = 1 + input.below_or(11); count > 0; --count) {
    names.push_back(kNames[input.byte() % kNames.size()]);
  }
  const larder::KeySpace space{"t", "d", input.byte() % 4 == 0 ? "other" : "s"};
  wire::pack_keys(space, names, keys);
}

// A put that passes the first checks: lengths, values and checksums agree, but for some damage.
std::string build_put(FuzzInput& input, std::uint64_t buffer_id, std::string& payload) {
  pb::PutRequest request;
  pick_keys(input, *request.mutable_keys());
  const std::uint8_t shape = input.byte();
  request.set_mode(shape & 1);
  request.set_force((shape & 2) != 0);
  if ((shape & 4) != 0) request.set_buffer_id(buffer_id);
  for (int i = 0; i < request.keys().lengths_size(); ++i) {
    const std::uint8_t how = input.byte();
    const std::size_t length = how < 128 ? how : input.below_or(how < 160 ? 600'000 : 3000);
    request.add_lengths(length);
    if (request.buffer_id() != 0) {
      for (std::size_t done = 0; done < length;) {
        wire::Descriptor piece;
        piece.offset = wire::kWindowDataAt + input.byte() * std::size_t{256};
        piece.bytes = static_cast<std::uint32_t>(
            std::min<std::size_t>(length - done, 1 + input.below_or(70'000)));
        piece.item = static_cast<std::uint32_t>(input.byte() == 255 ? i + 1 : i);
        payload.append(reinterpret_cast<const char*>(&piece), sizeof(piece));
        done += piece.bytes;
        if (payload.size() > 4096) break;
      }
      continue;
    }
    std::string value(input.take(how % 16));
    value.resize(length, static_cast<char>('a' + how % 3));
    std::uint64_t checksum = larder::checksum64(bytes_of(value));
    if (how == 77) checksum ^= 1;
    payload += value;
    payload.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  }
  return request.SerializeAsString();
}

// A lookup or match_prefix whose keys and their number agree, but for some damage.
std::string build_lookup(FuzzInput& input, std::string& payload) {
  pb::Keys listed;
  pick_keys(input, listed);
  wire::KeyList keys;
  require(wire::unpack_keys(listed, keys).has_value(), "picked keys are good");
  std::vector<std::byte> room(wire::key_stream_bytes(keys.keys));
  wire::KeyWriter writer(keys.keys);
  require(writer.fill(room) == room.size(), "all keys fit");
  payload.assign(reinterpret_cast<const char*>(room.data()), room.size());
  const std::uint8_t damage = input.byte();
  if (damage % 8 == 7) payload[damage % payload.size()] ^= 1;
  pb::LookupRequest request;
  const larder::KeySpace space{"t", "d", std::string(keys.object_set)};
  wire::announce_keys(space, keys.keys.size() + (damage == 66 ? 1 : 0), *request.mutable_keys());
  request.set_routes(input.byte() % 2 == 0);
  return request.SerializeAsString();
}

// The other requests, with keys that may be stored.
std::string build_request(FuzzInput& input, std::uint64_t buffer_id, std::string& payload) {
  pb::Keys keys;
  switch (kOp) {
    case wire::Op::kPut:
      return build_put(input, buffer_id, payload);
    case wire::Op::kGet: {
      pb::GetRequest request;
      pick_keys(input, *request.mutable_keys());
      for (int i = 0; i < request.keys().lengths_size(); ++i) {
        request.add_capacities(input.below_or(8000));
      }
      request.set_routes_only(input.byte() % 2 == 0);
      return request.SerializeAsString();
    }
    case wire::Op::kPin: {
      pb::PinRequest request;
      pick_keys(input, *request.mutable_keys());
      request.set_lease_ms(input.below_or(100'000));
      return request.SerializeAsString();
    }
    case wire::Op::kList: {
      pb::ListRequest request;
      request.set_tenant("t");
      request.set_domain("d");
      request.set_object_set("s");
      request.set_limit(static_cast<std::uint32_t>(input.below_or(65536)));
      request.set_prefix(std::string(kNames[input.byte() % kNames.size()]));
      request.set_cursor(input.byte() % 2 == 0 ? 0 : input.below_or(~0U - 1));
      return request.SerializeAsString();
    }
    case wire::Op::kLookup:
    case wire::Op::kMatchPrefix:
      return build_lookup(input, payload);
    case wire::Op::kDevices: {
      pb::DevicesRequest request;
      request.set_action(input.byte() % 7);
      const std::uint8_t shape = input.byte();
      request.set_device((shape & 1) != 0 ? "/" : "");
      request.mutable_device()->append(
          (shape & 2) != 0 ? std::string_view("0123abcd-4567-89ef-0123-456789abcdef")
                           : input.take(input.below_or(5000)));
      request.set_size(input.below_or(3));
      return request.SerializeAsString();
    }
    default: {  // remove, stat, unpin: keys
      pb::StatRequest request;
      pick_keys(input, *request.mutable_keys());
      return request.SerializeAsString();
    }
  }
}

// As the connection would: whatever places the sink offers, filled in uneven steps.
void feed_payload(rpc::PayloadSink& sink, std::string_view payload, std::size_t step) {
  std::array<iovec, 64> places;
  while (!payload.empty()) {
    const std::size_t count = sink.next(std::span(places).first(step % places.size() + 1));
    require(count <= step % places.size() + 1, "no more places than asked for");
    std::size_t room = std::min(step, payload.size());
    std::size_t moved = 0;
    for (std::size_t i = 0; i < count && room > 0; ++i) {
      const std::size_t n = std::min(places[i].iov_len, room);
      if (n > 0) std::memcpy(places[i].iov_base, payload.data() + moved, n);
      moved += n;
      room -= n;
    }
    if (moved == 0) return;  // the connection passes over the rest
    sink.advance(moved);
    payload.remove_prefix(moved);
  }
}

void check_reply(rpc::Reply& reply) {
  require(reply.frame.size() >= wire::kHeaderBytes, "there is room for the header");
  if (reply.code != larder::Code::kOk) {
    pb::ErrorReply body;
    require(wire::parse_body(wire::frame_body(reply.frame), kOp, body).has_value(), "an error");
    require(!body.text().empty(), "errors have words");
  }
  std::uint64_t total = 0;
  std::array<iovec, 7> pieces;
  while (reply.payload) {
    const std::size_t count = reply.payload->next(pieces);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) {
      total += pieces[i].iov_len;
      static_cast<void>(larder::checksum64(
          {static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len}));
    }
  }
  require(total == reply.payload_bytes, "the payload is as long as announced");
}

void check_store(node::StoreCore& core) {
  const auto visit = [&core](const larder::route::Entry& entry) {
    const std::span<const std::byte> value(core.hot->data(entry),
                                           static_cast<std::size_t>(entry.length()));
    require(larder::checksum64(value) == entry.checksum(), "what is stored is what was put");
    require(!entry.key().empty() && entry.key().size() <= larder::kKeyBytesMax, "under a real key");
    return true;
  };
  core.routes->scan(0, visit);
  require(core.hot->used() + core.hot->free_bytes() == core.hot->capacity(), "no byte is lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  node::StoreCore& core = shared_store();
  store_value(core, "a", "some value");
  store_value(core, "ab", std::string(5000, 'b'));
  store_value(core, "abc", std::string(100, 'a'));
  static const auto buffer = offer_buffer(core);
  node::RequestService service(core);
  auto session = service.open_session({true, "fuzz"});
  for (int requests = 0; !input.empty() && requests < 8; ++requests) {
    const std::uint8_t mode = input.byte();
    const std::size_t step = 1 + input.below_or((mode & 2) != 0 ? 255 : 300'000);
    std::string payload;
    std::string body;
    if ((mode & 1) != 0) {
      body = build_request(input, buffer.first, payload);
    } else {
      body = std::string(input.take(input.below_or(4000)));
      payload = std::string(input.take(input.below_or(4000)));
    }
    if ((mode & 4) != 0) payload.resize(payload.size() / 2);
    wire::FrameHeader header;
    header.op = kOp;
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    header.payload_bytes = payload.size();
    rpc::Intake intake = session->on_request(header, body);
    if (!intake.reply && intake.later) {
      const auto answer = std::make_shared<LateAnswer>();
      intake.later(rpc::Responder(answer, header));
      if ((mode & 8) != 0) break;  // the connection ends before the answer
      intake.reply = answer->wait();
    }
    if (!intake.reply) {
      require(intake.sink != nullptr, "a request without an answer takes payload");
      feed_payload(*intake.sink, payload, step);
      if ((mode & 8) != 0) break;  // the connection ends in the middle
      intake = session->on_payload_end(header);
      require(intake.reply.has_value(), "without disks every answer comes at once");
    }
    check_reply(*intake.reply);
    check_store(core);
  }
  session.reset();
  check_store(core);
  require(core.hot->counters().reserved_bytes == 0, "reservations end with their session");
  require(core.pins_total() == 0, "and so do pins");
  empty_store(core);
  return 0;
}
