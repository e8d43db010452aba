// SPDX-License-Identifier: Apache-2.0
// What is special to files; the rest is in tests/conformance and engine_test.cc.
#include "transfer/file_transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "env/temp_directory.h"
#include "env/thread.h"
#include "fileio/fault_backend.h"
#include "fileio/file.h"
#include "fileio/pool_backend.h"
#include "transfer/transfer_testing.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kBytes = 1U << 20U;
constexpr std::string_view kFilePolicy =
    "policy: [{segment_type: file, transports: [io_uring, nds]}]";

class FileTransportTest : public testing::Test {
 protected:
  std::string new_file(const std::string& name, std::uint64_t bytes = kBytes) {
    const std::string path = directory_.file(name);
    std::vector<std::byte> content(bytes);
    fill_data(content, 4);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    return path;
  }
  void open(const FileTransportOptions& options) {
    auto made = FileTransport::create(options, rig_.dispatcher);
    ASSERT_TRUE(made) << made.error().to_string();
    transport_ = made->get();
    rig_.add(std::move(*made));
    rig_.add({.type = TransportType::kNds, .abilities = {.moves = {Ability::kCpuToFile}}});
    rig_.open(kFilePolicy);
    rig_.add_memory(local_);
  }
  TaskStatus run(Opcode opcode, SegmentId segment, std::uint64_t at, std::uint64_t bytes) {
    const BatchRef batch = rig_.batch(1);
    const TransferRequest request = request_of(opcode, std::span(local_).first(bytes), segment, at);
    const auto results = rig_.submit(batch, std::span(&request, 1));
    EXPECT_TRUE(results);
    EXPECT_EQ((*results)[0].code, Code::kOk) << (*results)[0].message;
    EXPECT_TRUE(batch->wait_idle(within(kSoon)));
    return batch->task(0).status();
  }

  env::TempDirectory directory_ = env::TempDirectory::create("larder-transfer").value();
  std::vector<std::byte> local_ = std::vector<std::byte>(kBytes);
  Rig rig_;
  FileTransport* transport_ = nullptr;
};

TEST_F(FileTransportTest, OpensForWhatIsAllowed) {
  const std::string path = new_file("file");
  EXPECT_TRUE((*FileTransport::open(path))->writable());
  EXPECT_EQ(code_of(FileTransport::open(directory_.file("none"))), Code::kNotFound);
  EXPECT_EQ(code_of(FileTransport::open(directory_.path())), Code::kInvalidArgument);
  if (::geteuid() == 0) return;  // who may do everything
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  const auto read_only = FileTransport::open(path);
  ASSERT_TRUE(read_only);
  EXPECT_FALSE((*read_only)->writable());
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_EQ(code_of(FileTransport::open(path)), Code::kPermissionDenied);
}

TEST_F(FileTransportTest, WritesToAReadOnlyFileAreRefusedAndReadsAreNot) {
  auto opened = fileio::File::open(new_file("file"), {});
  ASSERT_TRUE(opened);
  open({});
  const SegmentId segment = rig_.add_file(std::make_shared<fileio::File>(std::move(*opened)));
  const TaskStatus written = run(Opcode::kWrite, segment, 0, 4096);
  EXPECT_EQ(written.outcome, Outcome::kFailed);
  EXPECT_EQ(written.code, Code::kPermissionDenied);
  EXPECT_NE(written.message.find("reading only"), std::string::npos);
  EXPECT_EQ(run(Opcode::kRead, segment, 0, 4096).outcome, Outcome::kCompleted);
  EXPECT_EQ(rig_.faults[0]->counts().pieces, 0U);  // no other transport may do it either
}

TEST_F(FileTransportTest, TheBackendIsAsAskedFor) {
  open({.io_uring = false});
  EXPECT_EQ(transport_->backend(), "pool");
  EXPECT_EQ(transport_->type(), TransportType::kIoUring);
  EXPECT_TRUE(transport_->abilities().moves.contains(Ability::kCpuToFile));
}

TEST_F(FileTransportTest, AReadBeyondTheEndSaysWhere) {
  open({});
  const SegmentId segment = rig_.add_file(FileTransport::open(new_file("short", 5000)).value());
  const TaskStatus status = run(Opcode::kRead, segment, 4096, 4096);
  EXPECT_EQ(status.outcome, Outcome::kFailed);
  EXPECT_EQ(status.code, Code::kConflict);
  EXPECT_NE(status.message.find("short"), std::string::npos) << status.message;
  EXPECT_EQ(rig_.breakers.open(), 0U);
}

TEST_F(FileTransportTest, PiecesAreWholeRequestsOfADisk) {
  Rig rig({.jobs_max = 8, .slices = {}});
  auto made = FileTransport::create({}, rig.dispatcher);
  ASSERT_TRUE(made) << made.error().to_string();
  rig.add(std::move(*made));
  rig.open("policy: [{segment_type: file, transports: [io_uring]}]");
  std::vector<std::byte> memory(4U << 20U);
  rig.add_memory(memory);
  const SegmentId segment =
      rig.add_file(FileTransport::open(new_file("four", memory.size())).value());
  const BatchRef batch = rig.batch(1);
  const TransferRequest request = request_of(Opcode::kRead, memory, segment, 0);
  ASSERT_TRUE(rig.submit(batch, std::span(&request, 1)));
  ASSERT_TRUE(batch->wait_idle(within(kSoon)));
  EXPECT_EQ(batch->task(0).status().outcome, Outcome::kCompleted);
  // Four of 254 pages, and the rest.
  EXPECT_EQ(batch->task(0).record.pieces, 5U);
}

TEST_F(FileTransportTest, LargeOnesAreSharedOutBetweenWorkers) {
  open({.workers = 3, .depth = 2});
  const SegmentId segment = rig_.add_file(FileTransport::open(new_file("large")).value());
  const TaskStatus status = run(Opcode::kRead, segment, 0, kBytes);
  EXPECT_EQ(status.outcome, Outcome::kCompleted);
  std::vector<std::byte> expected(kBytes);
  fill_data(expected, 4);
  EXPECT_TRUE(equal(local_, expected));
}

// The rings pin what files use; pages that went must not be written to in place of their
// successors.
TEST(FileMemory, IsOrdinaryAgainOnceItIsUnregistered) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  const auto directory = env::TempDirectory::create("larder-transfer").value();
  const std::string path = directory.file("file");
  std::vector<std::byte> content(kBytes);
  fill_data(content, 4);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), kBytes);
  TransferConfig config;
  config.transports = {"io_uring"};
  const auto engine = TransferEngine::create(config).value();
  const SegmentId file = engine->open_segment("file://" + path).value();
  void* const place = ::mmap(nullptr, kBytes, kProtection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  const std::span<std::byte> memory(static_cast<std::byte*>(place), kBytes);
  const MemoryRange range{place, kBytes};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine->register_memory({&range, 1}));
    const BatchId batch = engine->allocate_batch(1).value();
    const TransferRequest request = request_of(Opcode::kRead, memory, file, 0);
    ASSERT_TRUE(engine->submit(batch, {&request, 1}));
    ASSERT_TRUE(engine->wait(batch, std::chrono::nanoseconds(kSoon)));
    EXPECT_TRUE(engine->poll(batch)->all_completed());
    EXPECT_TRUE(equal(memory, content));
    ASSERT_TRUE(engine->free_batch(batch));
    ASSERT_TRUE(engine->unregister_memory({&place, 1}));
    ASSERT_EQ(::mmap(place, kBytes, kProtection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              place);
  }
  ::munmap(place, kBytes);
}

// ---- a worker whose backend dies ----

class WorkerTransport final : public Transport {
 public:
  explicit WorkerTransport(std::unique_ptr<FileWorker> worker) : worker_(std::move(worker)) {}
  TransportType type() const noexcept override { return TransportType::kIoUring; }
  TransportAbilities abilities() const noexcept override {
    return {.moves = {Ability::kCpuToFile}};
  }
  void submit(std::span<const Piece* const> pieces) override { worker_->add(pieces); }
  void cancel(PieceToken token) noexcept override { worker_->cancel(token); }
  bool drain(std::int64_t deadline) override { return worker_->drain(deadline); }

 private:
  std::unique_ptr<FileWorker> worker_;
};

TEST_F(FileTransportTest, AfterItsBackendDiedAllFailOverAndItCanGo) {
  auto pool = fileio::PoolBackend::create({.depth = 4, .threads = 0});
  auto dying = std::make_unique<fileio::FaultBackend>(std::move(*pool),
                                                      fileio::FaultOptions{.death_after = 6});
  auto worker = FileWorker::create(std::move(dying), rig_.dispatcher);
  ASSERT_TRUE(worker);
  rig_.add(std::make_unique<WorkerTransport>(std::move(*worker)));
  std::vector<std::byte> content(kBytes);
  fill_data(content, 4);
  FaultTransport& other = rig_.add({.type = TransportType::kNds, .file = content, .at_once = 1});
  rig_.open(kFilePolicy);
  rig_.add_memory(local_);
  const SegmentId segment = rig_.add_file(FileTransport::open(new_file("file")).value());
  for (std::uint64_t i = 0; i < 6; ++i) {
    const TaskStatus status = run(Opcode::kRead, segment, i * 4096, 3000);
    EXPECT_EQ(status.outcome, Outcome::kCompleted) << status.message;
    EXPECT_TRUE(equal(std::span(local_).first(3000), std::span(content).subspan(i * 4096, 3000)));
    if (i == 0) {
      EXPECT_EQ(status.transport, TransportType::kIoUring);
    }
  }
  EXPECT_GT(other.counts().pieces, 2U);
  EXPECT_TRUE(rig_.dispatcher.transport(TransportType::kIoUring)->drain(within(kSoon)));
}

}  // namespace
}  // namespace larder::transfer
