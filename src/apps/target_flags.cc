// SPDX-License-Identifier: Apache-2.0
#include "apps/target_flags.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/units.h"
#include "block/file_device.h"

namespace larder::apps {
namespace {

tl::unexpected<Error> wrong(const char* flag, const Error& error) {
  return fail(error.code(), fmt::format("{}: {}", flag, error.message()));
}

Result<nvmf::NamespaceOptions> on_ram(const std::string& size, const TargetFlags& flags) {
  const auto bytes = base::parse_size(size);
  if (!bytes) return wrong("--ram", bytes.error());
  nvmf::NamespaceOptions out;
  out.ram_bytes = *bytes;
  out.block_bytes = flags.block_bytes;
  out.read_only = flags.read_only;
  return out;
}

Result<nvmf::NamespaceOptions> on_file(const FileSpec& spec, const TargetFlags& flags,
                                       const char* flag) {
  block::FileDeviceOptions options;
  options.path = spec.path;
  options.create = spec.bytes > 0;
  if (spec.bytes > 0) options.bytes = spec.bytes;
  options.block_bytes = flags.block_bytes;
  auto device = block::FileDevice::open(options);
  if (!device) {
    std::string text = device.error().message();
    if (device.error().code() == Code::kNotFound && flag == std::string_view("--file")) {
      text += "; give it a size to make it: --file " + spec.path + ":10GiB";
    }
    return fail(device.error().code(), fmt::format("{}: {}", flag, text));
  }
  nvmf::NamespaceOptions out;
  out.device = std::move(*device);
  out.read_only = flags.read_only;
  return out;
}

// What became of one; empty: nothing.
std::string look_at(nvmf::Target& target, nvmf::NamespaceOptions& space) {
  const auto device = std::dynamic_pointer_cast<block::FileDevice>(space.device);
  if (device == nullptr) return {};
  const std::uint64_t before = device->geometry().bytes();
  const auto now = device->bytes_now();
  if (!now) return now.error().message();
  const std::string& path = device->identity().name;
  if (*now == before) return {};
  if (*now < before) {
    return fmt::format(
        "namespace {}: {} has {} bytes, {} are served: it has shrunk; what is gone "
        "ends in errors, the size stays. Start again to serve less",
        space.nsid, path, *now, before);
  }
  auto larger = device->grown();
  if (!larger) return larger.error().message();
  nvmf::NamespaceOptions next = space;
  next.device = std::move(*larger);
  if (const auto done = target.replace_namespace(next); !done) return done.error().message();
  space = std::move(next);
  return fmt::format("namespace {}: {} has grown from {} bytes to {}; hosts are told", space.nsid,
                     path, before, space.device->geometry().bytes());
}

}  // namespace

std::vector<std::string> look_again(nvmf::Target& target,
                                    std::vector<nvmf::NamespaceOptions>& namespaces) {
  std::vector<std::string> news;
  for (std::size_t i = 0; i < namespaces.size(); ++i) {
    namespaces[i].nsid = static_cast<std::uint32_t>(i + 1);
    std::string text = look_at(target, namespaces[i]);
    if (!text.empty()) news.push_back(std::move(text));
  }
  return news;
}

Result<FileSpec> parse_file_spec(const std::string& text) {
  FileSpec out{text, 0};
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos && colon > 0) {
    const auto bytes = base::parse_size(text.substr(colon + 1));
    // A colon in a name, unless it looks like a size that is wrong.
    const bool digit = colon + 1 < text.size() && text[colon + 1] >= '0' && text[colon + 1] <= '9';
    if (!bytes && digit) return wrong("--file", bytes.error());
    if (bytes) out = {text.substr(0, colon), *bytes};
    if (bytes && *bytes == 0) return fail(Code::kInvalidArgument, "--file: 0 bytes hold nothing");
  }
  if (out.path.empty()) return fail(Code::kInvalidArgument, "--file: an empty path");
  std::error_code error;
  out.path = std::filesystem::absolute(out.path, error).lexically_normal().string();
  if (error) return fail(Code::kInvalidArgument, "--file: " + error.message());
  return out;
}

Result<env::SocketAddress> parse_listen(const std::string& text) {
  std::string whole = text;
  if (whole.starts_with(':')) whole = "127.0.0.1" + whole;
  const bool number =
      whole.starts_with('[') ? whole.ends_with(']') : whole.find(':') == std::string::npos;
  if (number) whole += ":4420";
  auto address = env::SocketAddress::parse(whole);
  if (!address) return wrong("--listen", address.error());
  if (address->kind != env::SocketAddress::Kind::kTcp) {
    return fail(Code::kInvalidArgument, "--listen: NVMe/TCP needs HOST:PORT");
  }
  return address;
}

Result<nvmf::TargetOptions> target_options(const TargetFlags& flags) {
  nvmf::TargetOptions out;
  LARDER_ASSIGN(out.listen, parse_listen(flags.listen));
  out.advertise = flags.advertise;
  if (!flags.nqn.empty()) out.nqn = flags.nqn;
  out.allow_hosts = flags.allow_hosts;
  out.threads = flags.threads;
  return out;
}

Result<std::vector<nvmf::NamespaceOptions>> open_namespaces(const TargetFlags& flags) {
  if (flags.ram.empty() && flags.files.empty() && flags.devices.empty()) {
    return fail(Code::kInvalidArgument,
                "nothing to export; give --ram SIZE, --file PATH[:SIZE] or --device PATH");
  }
  if (flags.block_bytes != 512 && flags.block_bytes != 4096) {
    return fail(Code::kInvalidArgument, "--block: blocks have 512 or 4096 bytes");
  }
  std::vector<nvmf::NamespaceOptions> out;
  for (const std::string& size : flags.ram) {
    LARDER_ASSIGN(auto space, on_ram(size, flags));
    out.push_back(std::move(space));
  }
  for (const std::string& file : flags.files) {
    LARDER_ASSIGN(const FileSpec spec, parse_file_spec(file));
    LARDER_ASSIGN(auto space, on_file(spec, flags, "--file"));
    out.push_back(std::move(space));
  }
  for (const std::string& device : flags.devices) {
    LARDER_ASSIGN(auto space, on_file({device, 0}, flags, "--device"));
    out.push_back(std::move(space));
  }
  return out;
}

}  // namespace larder::apps
