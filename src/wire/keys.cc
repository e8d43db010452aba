// SPDX-License-Identifier: Apache-2.0
#include "wire/keys.h"

#include <string>

#include "larder.pb.h"

namespace larder::wire {
namespace {

Result<void> validate_name(std::string_view name, std::string_view what) {
  if (!name.empty() && name.size() <= kSpaceNameBytesMax) return {};
  return fail(Code::kInvalidArgument, "key space: the " + std::string(what) + " has " +
                                          std::to_string(name.size()) +
                                          " bytes; 1 to 255 are allowed");
}

Result<void> validate_names(std::string_view tenant, std::string_view domain,
                            std::string_view object_set) {
  LARDER_TRY(validate_name(tenant, "tenant"));
  LARDER_TRY(validate_name(domain, "domain"));
  return validate_name(object_set, "object set");
}

Result<void> validate_count(std::size_t count) {
  if (count > 0 && count <= kBatchItemsMax) return {};
  return fail(Code::kInvalidArgument, "a batch of " + std::to_string(count) + " keys; 1 to " +
                                          std::to_string(kBatchItemsMax) +
                                          " are allowed in one call");
}

void set_space(const KeySpace& space, pb::Keys& into) {
  into.set_tenant(space.tenant);
  into.set_domain(space.domain);
  into.set_object_set(space.object_set);
}

}  // namespace

Result<void> validate_space(const KeySpace& space) {
  return validate_names(space.tenant, space.domain, space.object_set);
}

void pack_keys(const KeySpace& space, std::span<const std::string_view> keys, pb::Keys& into) {
  set_space(space, into);
  std::size_t total = 0;
  auto* lengths = into.mutable_lengths();
  lengths->Clear();
  lengths->Reserve(static_cast<int>(keys.size()));
  for (const std::string_view key : keys) {
    lengths->AddAlreadyReserved(static_cast<std::uint32_t>(packed(key).size()));
    total += packed(key).size();
  }
  std::string* data = into.mutable_data();
  data->clear();
  data->reserve(total);
  for (const std::string_view key : keys) data->append(packed(key));
}

void announce_keys(const KeySpace& space, std::size_t count, pb::Keys& into) {
  set_space(space, into);
  into.set_count(static_cast<std::uint32_t>(count));
}

Result<void> check_announced(const pb::Keys& message) {
  LARDER_TRY(validate_names(message.tenant(), message.domain(), message.object_set()));
  if (message.lengths_size() > 0 || !message.data().empty()) {
    return fail(Code::kInvalidArgument, "the keys of this operation come as payload");
  }
  return validate_count(message.count());
}

Result<void> unpack_keys(const pb::Keys& message, KeyList& into) {
  LARDER_TRY(validate_names(message.tenant(), message.domain(), message.object_set()));
  const auto count = static_cast<std::size_t>(message.lengths_size());
  LARDER_TRY(validate_count(count));
  into.tenant = message.tenant();
  into.domain = message.domain();
  into.object_set = message.object_set();
  into.keys.clear();
  into.keys.reserve(count);
  std::string_view rest = message.data();
  for (const std::uint32_t length : message.lengths()) {
    if (length > rest.size()) {
      return fail(Code::kCorrupt, "key list: lengths promise more bytes than the data has");
    }
    into.keys.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) return fail(Code::kCorrupt, "key list: bytes left over after the last key");
  return {};
}

}  // namespace larder::wire
