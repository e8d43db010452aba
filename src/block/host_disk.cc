// SPDX-License-Identifier: Apache-2.0
#include "block/host_disk.h"

#include <charconv>
#include <fstream>

namespace larder::block {
namespace {

constexpr std::size_t kLineMax = 256;

// The first line of a small file; empty: there is none. Foreign text, so only what prints is kept.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string out;
  for (char c = 0; out.size() < kLineMax && file.get(c) && c != '\n';) {
    if (c > ' ' && c < 127) {
      out += c;
    } else if (c == ' ' && !out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

std::uint32_t number_of(const std::string& path) {
  const std::string text = line_of(path);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

DiskFacts disk_facts(unsigned major, unsigned minor, const std::string& sysfs) {
  const std::string self =
      sysfs + "/dev/block/" + std::to_string(major) + ":" + std::to_string(minor);
  const std::string part = line_of(self + "/partition");
  // A partition shares its disk's queue and serial.
  const std::string disk = part.empty() ? self : self + "/..";
  DiskFacts facts;
  facts.volatile_cache = line_of(disk + "/queue/write_cache") != "write_through";
  const std::uint32_t discard = number_of(disk + "/queue/discard_granularity");
  const bool can = line_of(disk + "/queue/discard_max_bytes") != "0";
  facts.discard_bytes = can ? discard : 0;
  facts.optimal_bytes = number_of(disk + "/queue/optimal_io_size");
  for (const char* name : {"/wwid", "/device/wwid", "/serial", "/device/serial"}) {
    facts.serial = line_of(disk + name);
    if (!facts.serial.empty()) break;
  }
  if (!facts.serial.empty() && !part.empty()) facts.serial += "-part" + part;
  return facts;
}

}  // namespace larder::block
