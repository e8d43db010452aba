// SPDX-License-Identifier: Apache-2.0
// io_uring as an IoBackend: one ring of fixed depth. No polling thread in the kernel.
#pragma once

#include <memory>

#include "fileio/io_backend.h"

namespace larder::fileio {

struct UringOptions {
  std::size_t depth = 64;  // 1..kDepthMax
};

class UringBackend final : public IoBackend {
 public:
  static constexpr std::size_t kDepthMax = 4096;

  // kUnsupported: the kernel forbids io_uring or is too old (before 5.13); the message says which,
  // and the caller takes PoolBackend. kInvalidArgument: the depth. kExhausted: descriptors, memory.
  static Result<std::unique_ptr<UringBackend>> create(const UringOptions& options);
  // Gives operations that still run a few seconds to end, then lets go of the ring regardless.
  ~UringBackend() override;

  std::string_view name() const noexcept override { return "io_uring"; }
  std::size_t depth() const noexcept override;
  std::size_t in_flight() const noexcept override;
  Result<std::size_t> submit(std::span<const IoOp> ops) override;
  Result<void> start() override;
  Result<std::size_t> poll(std::span<IoDone> into) override;
  Result<std::size_t> wait(std::span<IoDone> into, env::Nanos deadline) override;
  void wake() noexcept override;
  bool quiesce(env::Nanos deadline) noexcept override;
  bool add_buffer(std::span<std::byte> memory) noexcept override;
  void remove_buffer(std::span<std::byte> memory) noexcept override;

 private:
  struct Ring;  // keeps liburing out of this header
  explicit UringBackend(std::unique_ptr<Ring> ring);
  std::unique_ptr<Ring> ring_;
};

}  // namespace larder::fileio
