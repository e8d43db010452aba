// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/host_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/units.h"
#include "env/fd.h"
#include "env/paths.h"
#include "env/random.h"
#include "env/socket.h"
#include "nvmf/pdu/connect.h"
#include "obs/log.h"

namespace larder::nvmf {
namespace {

constexpr std::size_t kFileBytesMax = 512;
constexpr std::string_view kUuidNqn = "nqn.2014-08.org.nvmexpress:uuid:";

// The first line; nothing where there is no such file, or it cannot be read.
std::optional<std::string> line_of(const std::string& path) {
  const env::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  std::string text(kFileBytesMax, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  text.resize(std::min(text.find('\n'), text.size()));
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

Id16 id_of_nqn(const std::string& nqn) {
  if (nqn.starts_with(kUuidNqn)) {
    if (const auto uuid = parse_uuid(std::string_view(nqn).substr(kUuidNqn.size()))) return *uuid;
  }
  Id16 id;
  store_le(id.data(), hash64(nqn, 1));
  store_le(id.data() + 8, hash64(nqn, 2));
  return id;
}

Result<HostIdentity> identity_of(std::string nqn, const std::string& id, std::string from) {
  const auto checked = check_nqn(nqn);
  if (!checked) {
    return fail(Code::kInvalidArgument,
                "the host NQN of " + from + ": " + checked.error().message());
  }
  HostIdentity out{std::move(nqn), {}, std::move(from)};
  out.id = id_of_nqn(out.nqn);
  if (id.empty()) return out;
  const auto uuid = parse_uuid(id);
  if (!uuid) {
    return fail(Code::kInvalidArgument,
                "the host id of " + out.from + ": " + uuid.error().message());
  }
  out.id = *uuid;
  return out;
}

std::string made_up() {
  Id16 uuid;
  env::random_bytes(std::as_writable_bytes(std::span(uuid)));
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0FU) | 0x40U);  // RFC 4122: version 4
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3FU) | 0x80U);
  return std::string(kUuidNqn) + uuid_text(uuid);
}

// Puts `line` there unless something is there already: a whole file at once or none, whoever else
// tries at the same time.
bool keep(const std::string& path, const std::string& line) {
  if (!env::make_private_parent(path)) return false;
  const std::string draft = path + "." + std::to_string(env::random_u64());
  const env::Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return false;
  const std::string text = line + "\n";
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd.get()) == 0;
  const bool there = written && (::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  ::unlink(draft.c_str());
  return there;
}

Result<HostIdentity> own_identity(const std::string& directory) {
  const std::string path = directory + "/host_nqn";
  if (!directory.empty()) {
    if (const auto known = line_of(path)) return identity_of(*known, {}, path);
    if (keep(path, made_up())) {
      if (const auto kept = line_of(path)) return identity_of(*kept, {}, path);
    }
  }
  obs::log(obs::Level::kWarn, "nvmf_host_nqn_not_kept",
           {{"path", path}, {"hint", "this host has another name after a restart"}});
  return identity_of(made_up(), {}, "this process");
}

}  // namespace

Result<HostIdentity> host_identity(const HostIdentityOptions& options) {
  if (!options.nqn.empty()) return identity_of(options.nqn, {}, "the options");
  const std::string path = options.system_directory + "/hostnqn";
  if (const auto nqn = line_of(path); nqn && !nqn->empty()) {
    return identity_of(*nqn, line_of(options.system_directory + "/hostid").value_or(""), path);
  }
  return own_identity(options.state_directory.empty() ? env::state_directory()
                                                      : options.state_directory);
}

}  // namespace larder::nvmf
