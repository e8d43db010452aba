// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "meta/backend.h"
#include "meta/memory_backend.h"

namespace larder::meta {
namespace {

constexpr std::string_view kMemoryScheme = "memory://";
constexpr std::size_t kMemoryNameBytesMax = 64;

bool is_memory_name(std::string_view name) {
  return name.size() <= kMemoryNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// Weak, so that a name lives as long as somebody holds it, and no longer.
std::shared_ptr<MetadataBackend> named_memory(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<MetadataBackend>> named;
  const std::lock_guard lock(mutex);
  std::erase_if(named, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<MetadataBackend>& slot = named[name];
  std::shared_ptr<MetadataBackend> backend = slot.lock();
  if (!backend) slot = backend = make_memory_backend();
  return backend;
}

}  // namespace

Result<std::shared_ptr<MetadataBackend>> open_backend(std::string_view url) {
  if (url.starts_with(kMemoryScheme)) {
    const std::string_view name = url.substr(kMemoryScheme.size());
    if (name.empty()) return make_memory_backend();
    if (is_memory_name(name)) return named_memory(std::string(name));
    return fail(Code::kInvalidArgument,
                "metadata URL memory://NAME: NAME must be 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  // Never the whole URL in a message: it may hold a password.
  for (const std::string_view scheme : {"redis://", "etcd://"}) {
    if (!url.starts_with(scheme)) continue;
    return fail(Code::kUnsupported,
                "metadata URL " + std::string(scheme) + "...: this build has memory:// only");
  }
  return fail(Code::kInvalidArgument, "metadata URL must begin with memory://");
}

}  // namespace larder::meta
