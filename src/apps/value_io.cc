// SPDX-License-Identifier: Apache-2.0
#include "apps/value_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "apps/console.h"
#include "base/units.h"
#include "env/fd.h"

namespace larder::apps {
namespace {

constexpr std::size_t kPieceMin = 64 << 10;
constexpr std::size_t kPieceMax = 64 << 20;

Error too_large(const std::string& name, std::uint64_t bytes_max) {
  return Error(Code::kTooLarge, fmt::format("{} holds more than the {} a value may have; split it",
                                            name, base::human_bytes(bytes_max)));
}

// Fills the piece as far as the input goes; false at its end.
Result<bool> read_piece(int fd, const std::string& name, std::vector<std::byte>& piece) {
  std::size_t filled = 0;
  while (filled < piece.size()) {
    const ssize_t got = ::read(fd, piece.data() + filled, piece.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("cannot read {}: {}", name, std::strerror(errno)));
    }
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  const bool more = filled == piece.size();
  piece.resize(filled);
  return more;
}

Result<FileValue> read_all(int fd, const std::string& name, std::uint64_t bytes_max) {
  FileValue value;
  std::size_t next = kPieceMin;
  for (bool more = true; more;) {
    auto& piece = value.pieces.emplace_back(next);
    next = std::min(next * 2, kPieceMax);
    LARDER_ASSIGN(more, read_piece(fd, name, piece));
    value.bytes += piece.size();
    if (value.bytes > bytes_max) return fail(too_large(name, bytes_max));
  }
  if (value.pieces.back().empty()) value.pieces.pop_back();
  if (value.bytes == 0) {
    return fail(Code::kInvalidArgument, name + " is empty; a value has at least 1 byte");
  }
  return value;
}

Result<void> write_beside(const std::string& path, ConstBytes bytes) {
  std::string temporary = path + ".XXXXXX";
  env::Fd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot write {}: {}", base::quoted(path, 256), std::strerror(errno)));
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  auto wrote = write_all(file.get(), bytes, base::quoted(path, 256));
  if (wrote &&
      (::fchmod(file.get(), 0666 & ~mask) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)) {
    wrote = fail(Code::kInternal, fmt::format("cannot put {} in place: {}", base::quoted(path, 256),
                                              std::strerror(errno)));
  }
  if (!wrote) ::unlink(temporary.c_str());
  return wrote;
}

}  // namespace

std::vector<ConstBytes> FileValue::views() const {
  return {pieces.begin(), pieces.end()};
}

Result<FileValue> read_value(const std::string& path, std::uint64_t bytes_max) {
  try {
    if (path.empty() || path == "-") return read_all(STDIN_FILENO, "stdin", bytes_max);
    const std::string name = base::quoted(path, 256);
    const env::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (!file.valid() || ::fstat(file.get(), &info) != 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("cannot open {}: {}", name, std::strerror(errno)));
    }
    if (S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) > bytes_max) {
      return fail(too_large(name, bytes_max));
    }
    return read_all(file.get(), name, bytes_max);
  } catch (const std::bad_alloc&) {
    return fail(Code::kExhausted, "not enough memory to hold the value");
  }
}

Result<void> write_value(const std::string& path, ConstBytes bytes) {
  if (path.empty() || path == "-") return write_all(STDOUT_FILENO, bytes, "stdout");
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists || S_ISREG(info.st_mode)) return write_beside(path, bytes);
  const env::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) {
    return fail(Code::kInvalidArgument,
                fmt::format("cannot write {}: {}", base::quoted(path, 256), std::strerror(errno)));
  }
  return write_all(file.get(), bytes, base::quoted(path, 256));
}

bool is_text(ConstBytes bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) {
    const auto c = std::to_integer<unsigned char>(b);
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t' || c == '\r';
  });
}

}  // namespace larder::apps
