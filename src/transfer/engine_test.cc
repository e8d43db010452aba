// SPDX-License-Identifier: Apache-2.0
// The engine as its users see it, on real memory and real files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "env/temp_directory.h"
#include "larder/transfer.h"
#include "obs/metrics.h"

namespace larder {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1UL << 20;
constexpr auto kLong = 30s;

class EngineTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }
  void open(TransferConfig config) {
    engine_.reset();
    config.metrics = &registry_;
    if (config.transports.size() == 4) config.transports = {"memcpy", "io_uring"};
    auto made = TransferEngine::create(std::move(config));
    ASSERT_TRUE(made) << made.error().to_string();
    engine_ = std::move(*made);
  }
  // Memory of the engine's own, filled with `seed`'s bytes.
  std::byte* memory(std::uint64_t bytes, unsigned seed = 0) {
    auto* const at = static_cast<std::byte*>(engine_->allocate_memory(bytes).value());
    for (std::uint64_t i = 0; i < bytes; ++i) {
      at[i] = static_cast<std::byte>((seed * 131 + i * 7 + i / 251) & 0xff);
    }
    return at;
  }
  static TransferRequest copy(Opcode opcode, void* local, void* target, std::uint64_t bytes) {
    TransferRequest request;
    request.opcode = opcode;
    request.local = local;
    request.target_offset = reinterpret_cast<std::uintptr_t>(target);
    request.length = bytes;
    return request;
  }
  TransferRequest file(Opcode opcode, void* local, SegmentId segment, std::uint64_t offset,
                       std::uint64_t bytes) {
    TransferRequest request;
    request.opcode = opcode;
    request.local = local;
    request.target = segment;
    request.target_offset = offset;
    request.length = bytes;
    return request;
  }
  SegmentId new_file(const std::string& name, std::uint64_t bytes) {
    const std::string path = dir_.file(name);
    std::ofstream(path).close();
    std::filesystem::resize_file(path, bytes);
    return engine_->open_segment("file://" + path).value();
  }
  // Submits one request by itself and waits; its status.
  TaskStatus run(const TransferRequest& request) {
    const BatchId batch = engine_->allocate_batch(1).value();
    const auto results = engine_->submit(batch, std::span(&request, 1)).value();
    TaskStatus status;
    if (results[0].code != Code::kOk) {
      status.outcome = Outcome::kFailed;
      status.code = results[0].code;
      status.message = results[0].message;
    } else {
      EXPECT_TRUE(engine_->wait(batch, kLong));
      status = engine_->poll(batch, 0).value();
    }
    EXPECT_TRUE(engine_->free_batch(batch));
    return status;
  }
  Code refusal(const TransferRequest& request) { return run(request).code; }

  env::TempDirectory dir_ = env::TempDirectory::create("larder-transfer").value();
  obs::Registry registry_;
  std::unique_ptr<TransferEngine> engine_;
};

TEST_F(EngineTest, CopiesBothWaysInEverySize) {
  std::byte* const a = memory(40 * kMiB, 1);
  std::byte* const b = memory(40 * kMiB, 2);
  for (const std::uint64_t bytes : {1UL, 4096UL, 65537UL, 1 * kMiB, 33 * kMiB + 3}) {
    const TaskStatus read = run(copy(Opcode::kRead, a, b, bytes));
    EXPECT_EQ(read.outcome, Outcome::kCompleted) << read.message;
    EXPECT_TRUE(read.quiescent);
    EXPECT_EQ(read.bytes, bytes);
    EXPECT_EQ(read.transport, TransportType::kMemcpy);
    EXPECT_EQ(std::memcmp(a, b, bytes), 0);
    a[bytes - 1] = ~a[bytes - 1];
    EXPECT_EQ(run(copy(Opcode::kWrite, a, b, bytes)).outcome, Outcome::kCompleted);
    EXPECT_EQ(std::memcmp(a, b, bytes), 0);
  }
}

TEST_F(EngineTest, FilesInEveryAlignment) {
  const SegmentId segment = new_file("blocks", 20 * kMiB);
  std::byte* const from = memory(10 * kMiB, 3);
  std::byte* const to = memory(10 * kMiB, 4);
  struct Case {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t skew;
  };
  for (const Case& c : {Case{0, 4096, 0}, Case{8 * kMiB, 9 * kMiB, 0}, Case{17, 1, 3},
                        Case{4095, 70001, 1}, Case{512, 8 * kMiB + 5, 4}}) {
    EXPECT_EQ(run(file(Opcode::kWrite, from + c.skew, segment, c.offset, c.bytes)).message, "");
    const TaskStatus read = run(file(Opcode::kRead, to + 5, segment, c.offset, c.bytes));
    ASSERT_EQ(read.outcome, Outcome::kCompleted) << read.message;
    EXPECT_EQ(read.transport, TransportType::kIoUring);
    EXPECT_EQ(std::memcmp(from + c.skew, to + 5, c.bytes), 0) << c.offset;
  }
}

TEST_F(EngineTest, ABatchOfManyAnswersEachItem) {
  const SegmentId segment = new_file("many", 4 * kMiB);
  std::byte* const from = memory(4 * kMiB, 5);
  std::byte* const to = memory(4 * kMiB, 6);
  const BatchId batch = engine_->allocate_batch(300).value();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 128; ++i) {
    requests.push_back(file(Opcode::kWrite, from + i * 8192, segment, i * 8192, 4096));
  }
  std::byte outside[16];
  requests[5].length = 0;
  requests[6].local = outside;
  requests[7].target = SegmentId{99};
  requests[8].target_offset = ~0UL - 100;
  requests[9].policy = "no_such_rule";
  requests[10].transport_hint = TransportType::kTcp;
  requests[12].opcode = static_cast<Opcode>(255);
  requests[13].intent = static_cast<Intent>(200);
  requests[14].traffic_class = static_cast<TrafficClass>(9);
  requests[11].deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(1));
  auto results = engine_->submit(batch, requests).value();
  const std::vector<Code> refused = {Code::kInvalidArgument,  Code::kInvalidArgument,
                                     Code::kNotFound,         Code::kInvalidArgument,
                                     Code::kInvalidArgument,  Code::kInvalidArgument,
                                     Code::kDeadlineExceeded, Code::kInvalidArgument,
                                     Code::kInvalidArgument,  Code::kInvalidArgument};
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i >= 5 && i <= 14) {
      EXPECT_EQ(results[i].code, refused[i - 5]) << i << results[i].message;
      EXPECT_FALSE(results[i].message.empty());
    } else {
      EXPECT_EQ(results[i].code, Code::kOk) << results[i].message;
      EXPECT_EQ(results[i].task, next++);
    }
  }
  BatchStatus status = engine_->wait(batch, kLong).value();
  EXPECT_EQ(status.tasks, 118U);
  EXPECT_TRUE(status.all_completed());
  // The same batch again, read back into other memory; neighbours travel together.
  requests.clear();
  for (std::uint64_t i = 0; i < 128; ++i) {
    requests.push_back(file(Opcode::kRead, to + i * 4096, segment, i * 4096, 4096));
  }
  results = engine_->submit(batch, requests).value();
  EXPECT_EQ(results.back().task, 245U);
  status = engine_->wait(batch, kLong).value();
  EXPECT_TRUE(status.all_completed());
  EXPECT_EQ(status.tasks, 246U);
  EXPECT_EQ(std::memcmp(to, from, 4096), 0);
  EXPECT_EQ(std::memcmp(to + 40 * 8192, from + 40 * 8192, 4096), 0);
  // And no room for more.
  results = engine_->submit(batch, requests).value();
  EXPECT_EQ(results[53].code, Code::kOk);
  EXPECT_EQ(results[54].code, Code::kExhausted);
  EXPECT_TRUE(engine_->wait(batch, kLong));
  EXPECT_TRUE(engine_->free_batch(batch));
}

TEST_F(EngineTest, OfMergedRequestsOnlyTheBadOneFails) {
  const SegmentId segment = new_file("short", 3 * 4096);
  std::byte* const to = memory(kMiB, 7);
  const BatchId batch = engine_->allocate_batch(4).value();
  std::vector<TransferRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.push_back(file(Opcode::kRead, to + i * 4096, segment, i * 4096, 4096));
  }
  ASSERT_TRUE(engine_->submit(batch, requests));
  const BatchStatus status = engine_->wait(batch, kLong).value();
  EXPECT_EQ(status.completed, 3U);
  const TaskStatus last = engine_->poll(batch, 3).value();
  EXPECT_EQ(last.outcome, Outcome::kFailed);
  EXPECT_EQ(last.code, Code::kConflict);
  EXPECT_NE(last.message.find("short"), std::string::npos) << last.message;
  EXPECT_EQ(engine_->poll(batch, 2)->outcome, Outcome::kCompleted);
}

// ---- memory ----

TEST_F(EngineTest, WhatIsRegisteredIsCheckedAtEveryEdge) {
  std::vector<std::byte> own(3 * 4096);
  const MemoryRange range{own.data() + 4096, 4096};
  ASSERT_TRUE(engine_->register_memory(std::span(&range, 1)));
  std::byte* const other = memory(8192);
  EXPECT_EQ(refusal(copy(Opcode::kRead, own.data() + 4096, other, 4096)), Code::kOk);
  EXPECT_EQ(refusal(copy(Opcode::kRead, own.data() + 4095, other, 4096)), Code::kInvalidArgument);
  EXPECT_EQ(refusal(copy(Opcode::kRead, own.data() + 4096, other, 4097)), Code::kInvalidArgument);
  EXPECT_EQ(refusal(copy(Opcode::kRead, other, own.data() + 8191, 2)), Code::kInvalidArgument);
  EXPECT_EQ(refusal(copy(Opcode::kRead, nullptr, other, 1)), Code::kInvalidArgument);

  EXPECT_EQ(engine_->register_memory(std::span(&range, 1)).error().code(), Code::kAlreadyExists);
  const std::vector<MemoryRange> overlap = {{own.data(), 4097}, {own.data() + 8192, 4096}};
  EXPECT_EQ(engine_->register_memory(overlap).error().code(), Code::kAlreadyExists);
  const std::vector<MemoryRange> one_bad = {{own.data(), 4096}, {own.data() + 8192, 0}};
  EXPECT_EQ(engine_->register_memory(one_bad).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(refusal(copy(Opcode::kRead, own.data(), other, 1)), Code::kInvalidArgument);
  const MemoryRange elsewhere{own.data(), 4096, "npu:0"};
  EXPECT_EQ(engine_->register_memory(std::span(&elsewhere, 1)).error().code(),
            Code::kInvalidArgument);

  void* address = own.data() + 4096;
  EXPECT_TRUE(engine_->unregister_memory(std::span(&address, 1)));
  EXPECT_EQ(engine_->unregister_memory(std::span(&address, 1)).error().code(), Code::kNotFound);
  EXPECT_EQ(refusal(copy(Opcode::kRead, own.data() + 4096, other, 1)), Code::kInvalidArgument);
  EXPECT_TRUE(engine_->free_memory(other));
}

// ---- ids ----

TEST_F(EngineTest, StaleIdsAreErrorsEverywhere) {
  const BatchId batch = engine_->allocate_batch(2).value();
  EXPECT_TRUE(engine_->free_batch(batch));
  const BatchId next = engine_->allocate_batch(2).value();
  EXPECT_NE(batch.value, next.value);
  for (const BatchId stale : {batch, BatchId{0}, BatchId{~0UL}, BatchId{next.value + 1}}) {
    EXPECT_EQ(engine_->poll(stale).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->poll(stale, 0).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->wait(stale, 0s).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->submit(stale, {}).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->cancel(stale, 0).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->free_batch(stale).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->event_fd(stale).error().code(), Code::kNotFound);
    EXPECT_EQ(engine_->explain(stale, 0).error().code(), Code::kNotFound);
  }
  EXPECT_EQ(engine_->poll(next, 0).error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->allocate_batch(0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_->allocate_batch(kBatchTasksMax + 1).error().code(), Code::kInvalidArgument);

  const SegmentId segment = new_file("once", 4096);
  EXPECT_TRUE(engine_->close_segment(segment));
  EXPECT_EQ(engine_->close_segment(segment).error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->segment_info(segment).error().code(), Code::kNotFound);
  EXPECT_EQ(refusal(file(Opcode::kRead, memory(4096), segment, 0, 1)), Code::kNotFound);
  EXPECT_EQ(engine_->close_segment(kLocalSegment).error().code(), Code::kInvalidArgument);
}

TEST_F(EngineTest, BatchesAreBounded) {
  TransferConfig config;
  config.batches_max = 3;
  open(std::move(config));
  std::vector<BatchId> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(engine_->allocate_batch(1).value());
  EXPECT_EQ(engine_->allocate_batch(1).error().code(), Code::kExhausted);
  EXPECT_TRUE(engine_->free_batch(batches[1]));
  EXPECT_TRUE(engine_->allocate_batch(1));
}

// ---- files ----

TEST_F(EngineTest, FilesThatCannotBeUsedSayWhy) {
  EXPECT_EQ(engine_->open_segment("file:///no/such/file").error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->open_segment("file://relative").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_->open_segment("file://" + dir_.path()).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_->open_segment("http://x").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_->segment_info(new_file("sized", 12345))->bytes, 12345U);

  const SegmentId segment = new_file("cut", 2 * kMiB);
  std::byte* const to = memory(2 * kMiB);
  EXPECT_EQ(run(file(Opcode::kRead, to, segment, 0, 2 * kMiB)).outcome, Outcome::kCompleted);
  std::filesystem::resize_file(dir_.file("cut"), kMiB);
  const TaskStatus status = run(file(Opcode::kRead, to, segment, 0, 2 * kMiB));
  EXPECT_EQ(status.code, Code::kConflict);
  EXPECT_TRUE(status.quiescent);
  // Removed: what is open stays readable.
  std::filesystem::remove(dir_.file("cut"));
  EXPECT_EQ(run(file(Opcode::kRead, to, segment, 0, kMiB)).outcome, Outcome::kCompleted);
}

TEST_F(EngineTest, TheThreadPoolDoesWhatTheRingDoes) {
  TransferConfig config;
  config.io_uring = false;
  open(std::move(config));
  const SegmentId segment = new_file("pool", 8 * kMiB);
  std::byte* const from = memory(5 * kMiB, 8);
  std::byte* const to = memory(5 * kMiB, 9);
  EXPECT_EQ(run(file(Opcode::kWrite, from, segment, 4096, 5 * kMiB)).message, "");
  EXPECT_EQ(run(file(Opcode::kRead, to, segment, 4096, 5 * kMiB)).message, "");
  EXPECT_EQ(std::memcmp(from, to, 5 * kMiB), 0);
}

// ---- being told ----

TEST_F(EngineTest, CallbackAndDescriptorTellOfIdleness) {
  const SegmentId segment = new_file("told", 4 * kMiB);
  std::byte* const to = memory(4 * kMiB);
  const BatchId batch = engine_->allocate_batch(10).value();
  const int fd = engine_->event_fd(batch).value();
  std::atomic<int> calls{0};
  std::promise<void> second;
  ASSERT_TRUE(engine_->subscribe(batch, [&](BatchId which) {
    EXPECT_EQ(which, batch);
    // From within a callback the next step may be taken.
    if (++calls == 1) {
      const TransferRequest next = copy(Opcode::kRead, to, to + kMiB, 100);
      EXPECT_TRUE(engine_->submit(batch, std::span(&next, 1)));
    } else {
      second.set_value();
    }
  }));
  const TransferRequest request = file(Opcode::kRead, to, segment, 0, 4 * kMiB);
  ASSERT_TRUE(engine_->submit(batch, std::span(&request, 1)));
  second.get_future().wait();
  pollfd ready{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 30'000), 1);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(engine_->poll(batch)->all_completed());
  EXPECT_TRUE(engine_->free_batch(batch));
}

TEST_F(EngineTest, ExplainsItself) {
  const SegmentId segment = new_file("why", 4 * kMiB);
  std::byte* const to = memory(4 * kMiB);
  const BatchId batch = engine_->allocate_batch(2).value();
  std::vector<TransferRequest> requests = {file(Opcode::kRead, to, segment, 0, 4 * kMiB),
                                           copy(Opcode::kWrite, to, to + kMiB, 4096)};
  requests[0].intent = Intent::kForegroundPrefixFetch;
  requests[0].trace_id = 77;
  ASSERT_TRUE(engine_->submit(batch, requests));
  ASSERT_TRUE(engine_->wait(batch, kLong));
  const std::string first = engine_->explain(batch, 0).value();
  for (const std::string_view part :
       {"\"transport\":\"io_uring\"", "cpu_file", "foreground_prefix_fetch", "\"class\":\"high\"",
        "\"nvme_read\":4194304", "\"trace_id\":77", "\"attempts\":1"}) {
    EXPECT_NE(first.find(part), std::string::npos) << part << " in " << first;
  }
  const std::string second = engine_->explain(batch, 1).value();
  EXPECT_NE(second.find("\"intent\":\"unknown\",\"class\":\"low\""), std::string::npos) << second;
  EXPECT_NE(second.find("\"host_memory_bw\":8192"), std::string::npos) << second;
  const std::string text = registry_.text();
  EXPECT_NE(text.find("larder_transfer_bytes_total{class=\"high\",direction=\"read\",intent="
                      "\"foreground_prefix_fetch\",transport=\"io_uring\"} 4194304"),
            std::string::npos)
      << text;
}

TEST_F(EngineTest, BadConfigurationsNameWhatIsWrong) {
  const auto refused = [](TransferConfig config) {
    auto made = TransferEngine::create(std::move(config));
    return made ? std::string("accepted") : made.error().message();
  };
  TransferConfig config;
  config.transports = {"memcpy", "warp"};
  EXPECT_NE(refused(config).find("warp"), std::string::npos);
  config.transports = {"memcpy", "memcpy"};
  EXPECT_NE(refused(config).find("twice"), std::string::npos);
  config.transports = {"memcpy", "nvme_tcp"};
  EXPECT_NE(refused(config).find("no transport 'nvme_tcp'"), std::string::npos);
  config.transports = {};
  EXPECT_NE(refused(config).find("no transport"), std::string::npos);
  config.transports = {"memcpy"};
  config.low_slice_bytes = 0;
  EXPECT_NE(refused(config).find("slice"), std::string::npos);
  config.low_slice_bytes = 4096;
  config.platforms = {"tpu"};
  EXPECT_NE(refused(config).find("tpu"), std::string::npos);
  config.platforms = {"cpu"};
  config.policy = "policy: [{name: far, segment_type: memory, transports: [tcp]}]";
  EXPECT_NE(refused(config).find("far"), std::string::npos);
}

TEST_F(EngineTest, AFileConfiguresIt) {
  const auto from_file = [&](std::string_view text) {
    std::ofstream(dir_.file("engine.yaml")) << text;
    auto made = TransferEngine::create_from_file(dir_.file("engine.yaml"));
    return made ? std::string("made") : made.error().message();
  };
  EXPECT_EQ(from_file(R"({transports: [memcpy, io_uring], file_depth: 8, low_slice_bytes: 64KiB,
drain_timeout: 3s, io_uring: no,
policy: [{name: here, segment_type: memory, transports: [memcpy]},
         {segment_type: file, min_size: 4KiB, transports: [io_uring]}]})"),
            "made");
  EXPECT_NE(from_file("transports: [memcpy]\nfile_deep: 3\n").find(":2: 'file_deep'"),
            std::string::npos);
  EXPECT_NE(from_file("file_depth: many\n").find("'file_depth'"), std::string::npos);
  EXPECT_NE(from_file("file_depth: 99999999999\n").find("at most"), std::string::npos);
  EXPECT_NE(from_file("io_uring: no\nio_uring: no\n").find("twice"), std::string::npos);
  EXPECT_NE(from_file("transports: memcpy\n").find("a list"), std::string::npos);
  EXPECT_NE(
      from_file("policy: [{name: x, segment_type: memory, transports: [warp]}]\n").find("warp"),
      std::string::npos);
  EXPECT_NE(from_file("[: {").find("engine.yaml:"), std::string::npos);
  EXPECT_NE(from_file("- 1\n").find("a mapping"), std::string::npos);
  EXPECT_EQ(TransferEngine::create_from_file("/no/such/file").error().code(), Code::kNotFound);
}

// ---- device memory ----

// The CPU cannot touch it: whatever got it wrong would not fail here but crash.
TEST_F(EngineTest, DeviceMemoryGoesThroughTheHost) {
  for (const std::string kind : {"npu", "cuda"}) {
    TransferConfig config;
    config.platforms = {"cpu", "sim-" + kind};
    open(std::move(config));
    constexpr std::uint64_t kBytes = 40 * kMiB + 12345;
    const SegmentId from = new_file("from-" + kind, kBytes);
    const SegmentId to = new_file("to-" + kind, kBytes);
    std::byte* const host = memory(kBytes, 21);
    std::byte* const back = memory(kBytes, 22);
    void* const device = engine_->allocate_memory(kBytes, kind + ":0").value();
    ASSERT_EQ(run(file(Opcode::kWrite, host, from, 0, kBytes)).message, "");

    TransferRequest in = file(Opcode::kRead, device, from, 0, kBytes);
    in.intent = Intent::kForegroundPrefixFetch;
    const TaskStatus status = run(in);
    ASSERT_EQ(status.outcome, Outcome::kCompleted) << status.message;
    EXPECT_EQ(status.bytes, kBytes);
    EXPECT_EQ(status.transport, TransportType::kIoUring);
    ASSERT_EQ(run(file(Opcode::kWrite, device, to, 0, kBytes)).message, "");
    ASSERT_EQ(run(file(Opcode::kRead, back, to, 0, kBytes)).message, "");
    EXPECT_EQ(std::memcmp(host, back, kBytes), 0) << kind;

    // And within the process, by memcpy.
    std::memset(back, 0, kBytes);
    ASSERT_EQ(run(copy(Opcode::kWrite, device, back, kBytes)).message, "");
    EXPECT_EQ(std::memcmp(host, back, kBytes), 0) << kind;
    EXPECT_TRUE(engine_->free_memory(device));
  }
}

TEST_F(EngineTest, StagedTransfersSayTheirTwoStages) {
  TransferConfig config;
  config.platforms = {"sim-npu"};
  open(std::move(config));
  const SegmentId segment = new_file("staged", kMiB);
  void* const device = engine_->allocate_memory(kMiB, "npu:0").value();
  const BatchId batch = engine_->allocate_batch(1).value();
  const TransferRequest request = file(Opcode::kWrite, device, segment, 0, kMiB);
  ASSERT_TRUE(engine_->submit(batch, std::span(&request, 1)));
  ASSERT_TRUE(engine_->wait(batch, kLong)->all_completed());
  const std::string why = engine_->explain(batch, 0).value();
  for (const std::string_view part :
       {"npu_file", "\"staged\":true", "device_to_host", "host_to_file",
        "\"accel_pcie_out\":1048576", "\"nvme_write\":1048576", "\"transport\":\"nds\""}) {
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
  }
}

}  // namespace
}  // namespace larder
