// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "env/fd.h"
#include "env/temp_directory.h"
#include "fileio/file.h"
#include "platform/platform_set.h"
#include "transfer/copy_transport.h"
#include "transfer/file_transport.h"
#include "transfer/peer.h"
#include "transfer/stager.h"
#include "transfer/tcp_transport.h"
#include "transport_conformance_suite.h"

namespace larder::transfer {
namespace {

constexpr std::uint64_t kTargetBytes = TransportStage::kTargetBytes;

// This process's memory, by address.
class MemoryStage : public TransportStage {
 public:
  Piece piece(Opcode opcode, std::span<std::byte> local, std::uint64_t at) override {
    Piece piece = piece_of(opcode, local, *segment_,
                           reinterpret_cast<std::uintptr_t>(memory_.data()) + at, {});
    piece.near = memory_.data() + at;
    return piece;
  }
  void set_target(std::span<const std::byte> bytes) override {
    std::copy(bytes.begin(), bytes.end(), memory_.begin());
  }
  std::vector<std::byte> target() override { return memory_; }

 protected:
  std::vector<std::byte> memory_ = std::vector<std::byte>(kTargetBytes);
  SegmentTable segments_;
  std::shared_ptr<const Segment> segment_ = segments_.find(kLocalSegment);
};

class CopyStage final : public MemoryStage {
 public:
  CopyStage(unsigned workers, PieceSink& sink)
      : transport_(TransportType::kMemcpy, workers, sink), workers_(workers) {}
  Transport& transport() override { return transport_; }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    Piece bad = piece(Opcode::kRead, local, 0);
    bad.near = nullptr;
    return {bad, Code::kUnavailable};
  }
  void drive() override {
    if (workers_ == 0) static_cast<void>(transport_.help());
  }

 private:
  CopyTransport transport_;
  const unsigned workers_;
};

// Another engine's memory, by address.
class PeerStage : public TransportStage {
 public:
  PeerStage() {
    TransferConfig config;
    config.transports = {"memcpy"};
    config.listen = {"tcp:127.0.0.1:0"};
    server_ = TransferEngine::create(config).value();
    memory_ = static_cast<std::byte*>(server_->allocate_memory(kTargetBytes).value());
    PeerOptions options;
    options.channel.address = env::SocketAddress::parse(server_->addresses().front()).value();
    options.map_memory = true;
    segment_.peer = Peer::open(options).value();
    description_ = segment_.peer->current();
  }
  Piece piece(Opcode opcode, std::span<std::byte> local, std::uint64_t at) override {
    Piece piece =
        piece_of(opcode, local, segment_, reinterpret_cast<std::uintptr_t>(memory_) + at, {});
    const RemoteBuffer& buffer = description_->buffers.at(0);
    piece.incarnation = description_->incarnation;
    piece.mapping = buffer.mapping.get();
    piece.near = buffer.mapping->data() + at;
    return piece;
  }
  void set_target(std::span<const std::byte> bytes) override {
    std::copy(bytes.begin(), bytes.end(), memory_);
  }
  std::vector<std::byte> target() override { return {memory_, memory_ + kTargetBytes}; }

 private:
  std::unique_ptr<TransferEngine> server_;
  std::byte* memory_ = nullptr;
  Segment segment_;
  std::shared_ptr<const RemoteDescription> description_;
};

class TcpStage final : public PeerStage {
 public:
  explicit TcpStage(PieceSink& sink) : transport_(kSoon, sink) {}
  Transport& transport() override { return transport_; }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    Piece bad = piece(Opcode::kRead, local, 0);
    bad.target_offset = 4096;
    return {bad, Code::kNotFound};
  }
  void drive() override { static_cast<void>(transport_.help()); }

 private:
  TcpTransport transport_;
};

class ShmStage final : public PeerStage {
 public:
  explicit ShmStage(PieceSink& sink) : transport_(TransportType::kShm, 1, sink) {}
  Transport& transport() override { return transport_; }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    Piece bad = piece(Opcode::kRead, local, 0);
    bad.near = nullptr;
    return {bad, Code::kUnavailable};
  }

 private:
  CopyTransport transport_;
};

// A stager before tcp. The "device" is host memory, which the platform copies just as well.
class StagedStage final : public PeerStage {
 public:
  explicit StagedStage(PieceSink& sink)
      : platforms_(platform::PlatformSet::create(std::vector<std::string>{}).value()),
        stager_(Stager::create({}, platforms_, sink).value()) {
    stager_->set_inner(std::make_unique<TcpTransport>(kSoon, stager_->inner_sink()));
  }
  Transport& transport() override { return *stager_; }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    Piece bad = piece(Opcode::kRead, local, 0);
    bad.target_offset = 4096;
    return {bad, Code::kNotFound};
  }

 private:
  platform::PlatformSet platforms_;
  std::unique_ptr<Stager> stager_;
};

class FileStage final : public TransportStage {
 public:
  static std::unique_ptr<TransportStage> make(const FileTransportOptions& options,
                                              PieceSink& sink) {
    std::unique_ptr<FileStage> stage(new FileStage);
    auto transport = FileTransport::create(options, sink);
    EXPECT_TRUE(transport) << transport.error().to_string();
    stage->transport_ = std::move(*transport);
    if (stage->transport_->backend() != (options.io_uring ? "io_uring" : "pool")) return nullptr;
    const std::string path = stage->directory_.file("target");
    stage->fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::ftruncate(stage->fd_.get(), kTargetBytes), 0);
    stage->segment_.type = SegmentType::kFile;
    stage->segment_.same_machine = true;
    stage->segment_.file = FileTransport::open(path).value();
    return stage;
  }
  Transport& transport() override { return *transport_; }
  Piece piece(Opcode opcode, std::span<std::byte> local, std::uint64_t at) override {
    return piece_of(opcode, local, segment_, at, {});
  }
  void set_target(std::span<const std::byte> bytes) override {
    EXPECT_EQ(::pwrite(fd_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  std::vector<std::byte> target() override {
    std::vector<std::byte> bytes(kTargetBytes);
    EXPECT_EQ(::pread(fd_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    return {piece(Opcode::kRead, local, kTargetBytes - 100), Code::kConflict};
  }

 private:
  FileStage() = default;
  env::TempDirectory directory_ = env::TempDirectory::create("larder-conformance").value();
  env::Fd fd_;
  Segment segment_;
  std::unique_ptr<FileTransport> transport_;
};

// The transport of the fault tests is a good one until it is told otherwise.
class FaultStage final : public MemoryStage {
 public:
  explicit FaultStage(PieceSink& sink) : transport_({}, sink) {}
  Transport& transport() override { return transport_; }
  std::pair<Piece, Code> bad_piece(std::span<std::byte> local) override {
    file_.type = SegmentType::kFile;
    return {piece_of(Opcode::kRead, local, file_, 0, {}), Code::kConflict};
  }
  void drive() override { transport_.step(); }

 private:
  FaultTransport transport_;
  Segment file_;
};

INSTANTIATE_TEST_SUITE_P(
    Transports, TransportConformance,
    testing::Values(
        TransportUnderTest{"CopyOneWorker",
                           [](PieceSink& sink) { return std::make_unique<CopyStage>(1, sink); }},
        TransportUnderTest{"CopyThreeWorkers",
                           [](PieceSink& sink) { return std::make_unique<CopyStage>(3, sink); }},
        TransportUnderTest{"CopyByWaiters",
                           [](PieceSink& sink) { return std::make_unique<CopyStage>(0, sink); }},
        TransportUnderTest{"Tcp", [](PieceSink& sink) { return std::make_unique<TcpStage>(sink); }},
        TransportUnderTest{"Shm", [](PieceSink& sink) { return std::make_unique<ShmStage>(sink); }},
        TransportUnderTest{"StagedTcp",
                           [](PieceSink& sink) { return std::make_unique<StagedStage>(sink); }},
        TransportUnderTest{"FileRing", [](PieceSink& sink) { return FileStage::make({}, sink); }},
        TransportUnderTest{
            "FileRings",
            [](PieceSink& sink) { return FileStage::make({.workers = 3, .depth = 4}, sink); }},
        TransportUnderTest{"FilePool",
                           [](PieceSink& sink) {
                             return FileStage::make({.workers = 2, .io_uring = false}, sink);
                           }},
        TransportUnderTest{"Fault",
                           [](PieceSink& sink) { return std::make_unique<FaultStage>(sink); }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace larder::transfer
