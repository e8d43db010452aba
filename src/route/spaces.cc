// SPDX-License-Identifier: Apache-2.0
#include "route/spaces.h"

#include <algorithm>

#include "base/checksum.h"

namespace larder::route {
namespace {

constexpr std::size_t kPartBytesMax = 255;

// Names are at most 255 bytes, so a length byte before each makes the joint name unambiguous.
std::string joint_name(std::string_view a, std::string_view b, std::string_view c) {
  std::string name;
  name.reserve(a.size() + b.size() + c.size() + 3);
  for (const std::string_view part : {a, b, c}) {
    name.push_back(static_cast<char>(part.size()));
    name.append(part);
  }
  return name;
}

}  // namespace

Result<Space> Spaces::intern(std::string_view tenant, std::string_view domain,
                             std::string_view object_set) {
  // A longer part would make two names one: no tenant may ever meet another's keys.
  if (std::max({tenant.size(), domain.size(), object_set.size()}) > kPartBytesMax) {
    return fail(Code::kInvalidArgument,
                "tenant, domain and object set have at most 255 bytes each");
  }
  Space space;
  if (find(tenant, domain, object_set, space)) return space;
  std::string name = joint_name(tenant, domain, object_set);
  const std::unique_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  if (by_name_.size() >= kSpacesMax) {
    return fail(Code::kExhausted, "this node already holds " + std::to_string(kSpacesMax) +
                                      " key spaces; use fewer tenants, domains or object sets");
  }
  space.id = static_cast<std::uint32_t>(by_name_.size() + 1);
  space.seed = hash64(name);
  by_id_.push_back(&by_name_.emplace(std::move(name), space).first->first);
  return space;
}

Spaces::Names Spaces::names(std::uint32_t id) const {
  const std::shared_lock lock(mutex_);
  if (id == 0 || id > by_id_.size()) return {};
  std::string_view joint = *by_id_[id - 1];
  const auto next = [&joint] {
    const auto bytes = static_cast<unsigned char>(joint.front());
    std::string part(joint.substr(1, bytes));
    joint.remove_prefix(std::size_t{1} + bytes);
    return part;
  };
  Names names;
  names.tenant = next();
  names.domain = next();
  names.object_set = next();
  return names;
}

bool Spaces::find(std::string_view tenant, std::string_view domain, std::string_view object_set,
                  Space& into) const {
  if (std::max({tenant.size(), domain.size(), object_set.size()}) > kPartBytesMax) return false;
  const std::string name = joint_name(tenant, domain, object_set);
  const std::shared_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return false;
  into = found->second;
  return true;
}

KeyRef key_in(const Space& space, std::string_view key) noexcept {
  return {space.id, key, hash64(key, space.seed)};
}

}  // namespace larder::route
