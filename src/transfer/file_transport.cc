// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_transport.h"

#include <algorithm>

#include "fileio/file.h"
#include "fileio/pool_backend.h"
#include "fileio/uring_backend.h"
#include "obs/log.h"

namespace larder::transfer {
namespace {

// One request of the disk. Of memory in scattered pages virtio-blk takes 254 in one (others that
// count take 127 or so, or none): the kernel makes two of a piece of 1 MiB, the second of 8 KiB.
// Reads of 4 MiB in pieces of 1 MiB came to 0.93 of those left whole, writes to 0.86; in pieces of
// this size to 0.99 and 0.97; of 512 KiB to 0.96 and 0.81 (bare io_uring, 25 turns each).
constexpr std::uint64_t kPieceBytes = 254 * 4096;

Result<std::unique_ptr<fileio::IoBackend>> make_backend(const FileTransportOptions& options) {
  if (options.io_uring) {
    auto ring = fileio::UringBackend::create({.depth = options.depth});
    if (ring) return std::unique_ptr<fileio::IoBackend>(std::move(*ring));
    if (ring.error().code() != Code::kUnsupported) return fail(ring.error());
    obs::log(obs::Level::kWarn, "io_uring_unavailable",
             {{"reason", ring.error().message()}, {"instead", "pread and pwrite by threads"}});
  }
  LARDER_ASSIGN(auto pool, fileio::PoolBackend::create({.depth = options.depth}));
  return std::unique_ptr<fileio::IoBackend>(std::move(pool));
}

}  // namespace

Result<std::unique_ptr<FileTransport>> FileTransport::create(const FileTransportOptions& options,
                                                             PieceSink& sink) {
  std::unique_ptr<FileTransport> transport(new FileTransport(sink));
  FileTransportOptions with = options;
  for (unsigned i = 0; i < options.workers; ++i) {
    LARDER_ASSIGN(auto backend, make_backend(with));
    with.io_uring = backend->name() == "io_uring";  // refused once is said once
    LARDER_ASSIGN(auto worker, FileWorker::create(std::move(backend), sink, options.memory));
    transport->workers_.push_back(std::move(worker));
  }
  return transport;
}

Result<std::shared_ptr<fileio::File>> FileTransport::open(const std::string& path) {
  fileio::FileOptions options;
  options.write = true;
  auto file = fileio::File::open(path, options);
  if (!file && file.error().code() == Code::kPermissionDenied) {
    options.write = false;
    file = fileio::File::open(path, options);
  }
  if (!file) return fail(file.error());
  return std::make_shared<fileio::File>(std::move(*file));
}

TransportAbilities FileTransport::abilities() const noexcept {
  TransportAbilities can;
  can.moves = {Ability::kCpuToFile};
  can.same_machine_only = true;
  can.alignment = 4096;
  can.bytes_max = kPieceBytes;
  return can;
}

// A piece goes to the next worker: so the pieces of one large request are shared out.
void FileTransport::submit(std::span<const Piece* const> pieces) {
  const auto refused = [](const Piece* piece) {
    return piece->opcode == Opcode::kWrite && !piece->target->file->writable();
  };
  if (workers_.size() == 1 && std::none_of(pieces.begin(), pieces.end(), refused)) {
    return workers_.front()->add(pieces);
  }
  const Error read_only(Code::kPermissionDenied,
                        "the file is open for reading only; see its permissions");
  std::vector<std::vector<const Piece*>> shares(workers_.size());
  for (const Piece* const piece : pieces) {
    if (refused(piece)) {
      sink_.piece_done(piece->token, &read_only);
      continue;
    }
    const unsigned to = next_.fetch_add(1, std::memory_order_relaxed);
    shares[to % workers_.size()].push_back(piece);
  }
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!shares[i].empty()) workers_[i]->add(shares[i]);
  }
}

void FileTransport::cancel(PieceToken token) noexcept {
  for (const auto& worker : workers_) worker->cancel(token);
}

void FileTransport::forget_memory(std::span<const std::byte> range) noexcept {
  for (const auto& worker : workers_) worker->memory().forget(range);
}

std::uint64_t FileTransport::pinned_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& worker : workers_) bytes += worker->memory().pinned_bytes();
  return bytes;
}

std::uint64_t FileTransport::pins_refused() const noexcept {
  std::uint64_t count = 0;
  for (const auto& worker : workers_) count += worker->memory().refused();
  return count;
}

bool FileTransport::drain(std::int64_t deadline) {
  bool quiet = true;
  for (const auto& worker : workers_) quiet = worker->drain(deadline) && quiet;
  return quiet;
}

}  // namespace larder::transfer
