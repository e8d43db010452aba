// SPDX-License-Identifier: Apache-2.0
// Host memory to and from files: workers with a ring (or a pool of threads) each.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transfer/file_worker.h"
#include "transfer/transport.h"

namespace larder::transfer {

struct FileTransportOptions {
  unsigned workers = 1;
  unsigned depth = 64;   // operations in flight per worker
  bool io_uring = true;  // false, or refused by the kernel: pread and pwrite by threads
  // Whose ranges the rings may pin, until forget_memory(); outlives the transport. Null: none.
  const MemoryTable* memory = nullptr;
};

class FileTransport final : public Transport {
 public:
  static Result<std::unique_ptr<FileTransport>> create(const FileTransportOptions& options,
                                                       PieceSink& sink);
  // For reading and writing; only for reading where nothing else is allowed. The errors of
  // fileio::File::open.
  static Result<std::shared_ptr<fileio::File>> open(const std::string& path);

  TransportType type() const noexcept override { return TransportType::kIoUring; }
  TransportAbilities abilities() const noexcept override;
  void submit(std::span<const Piece* const> pieces) override;
  void cancel(PieceToken token) noexcept override;
  bool drain(std::int64_t deadline) override;
  // A range that was taken out of the table: its pages may go when this returns.
  void forget_memory(std::span<const std::byte> range) noexcept;
  // Of all rings: bytes that are pinned, and how often the kernel would not pin more.
  std::uint64_t pinned_bytes() const noexcept;
  std::uint64_t pins_refused() const noexcept;
  std::string_view backend() const noexcept { return workers_.front()->backend(); }

 private:
  explicit FileTransport(PieceSink& sink) : sink_(sink) {}

  PieceSink& sink_;
  std::vector<std::unique_ptr<FileWorker>> workers_;
  std::atomic<unsigned> next_{0};
};

}  // namespace larder::transfer
