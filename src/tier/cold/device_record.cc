// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/device_record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

namespace larder::tier {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFormat = 1;
constexpr std::array<std::string_view, kDeviceStates> kStateNames = {"healthy", "full", "draining",
                                                                     "failed", "disabled_by_admin"};
constexpr std::array<std::string_view, 3> kKindNames = {"file", "raw", "remote"};
constexpr std::string_view kUuidShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

tl::unexpected<Error> wrong(std::string what) {
  return fail(Code::kInvalidArgument, "device record: " + std::move(what));
}

bool is_clean(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F;
  });
}

template <class Enum, std::size_t kCount>
std::optional<Enum> by_name(const std::array<std::string_view, kCount>& names,
                            std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Takes the fields of an object; remembers the first that is not as it must be.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::uint64_t number(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_number_unsigned()) return found->get<std::uint64_t>();
    note(name, "a number");
    return 0;
  }
  std::string text(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end() && found->is_string()) return found->get<std::string>();
    note(name, "a text");
    return {};
  }
  template <class Enum, std::size_t kCount>
  Enum named(const char* name, const std::array<std::string_view, kCount>& names) {
    const auto value = by_name<Enum>(names, text(name));
    if (!value) note(name, "a name this version knows");
    return value.value_or(Enum{});
  }
  const std::string& problem() const noexcept { return problem_; }

 private:
  void note(const char* name, const char* wanted) {
    if (problem_.empty()) problem_ = std::string("'") + name + "' is not " + wanted;
  }
  const Json& object_;
  std::string problem_;
};

Result<DeviceRecord> take_record(const Json& object) {
  Fields fields(object);
  DeviceRecord record;
  const std::uint64_t format = fields.number("format");
  if (fields.problem().empty() && format > kFormat) {
    return fail(Code::kVersionMismatch, "device record: of format " + std::to_string(format) +
                                            ", this version knows " + std::to_string(kFormat) +
                                            " only; update this node");
  }
  record.id = fields.text("id");
  record.kind = fields.named<DeviceKind>("kind", kKindNames);
  record.path = fields.text("path");
  record.owner.stable_id = fields.text("owner");
  record.owner.epoch = fields.number("epoch");
  record.state = fields.named<DeviceState>("state", kStateNames);
  record.capacity = fields.number("capacity");
  record.used = fields.number("used");
  record.reserved = fields.number("reserved");
  record.failures = fields.number("failures");
  record.last_error = fields.text("last_error");
  record.updated_at = static_cast<meta::Micros>(fields.number("updated_at"));
  if (!fields.problem().empty() || format != kFormat) {
    return fail(Code::kCorrupt,
                "device record: " + (fields.problem().empty() ? std::string("of no known format")
                                                              : fields.problem()));
  }
  return record;
}

}  // namespace

std::string_view device_state_name(DeviceState state) noexcept {
  const auto number = static_cast<std::size_t>(state);
  return number < kStateNames.size() ? kStateNames[number] : "unknown";
}

std::string_view device_kind_name(DeviceKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < kKindNames.size() ? kKindNames[number] : "unknown";
}

bool is_device_id(std::string_view text) noexcept {
  return std::equal(text.begin(), text.end(), kUuidShape.begin(), kUuidShape.end(),
                    [](char c, char shape) {
                      if (shape == '-') return c == '-';
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
}

std::string device_error_text(std::string_view text) {
  std::string out(text.substr(0, kDeviceErrorBytesMax));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return out;
}

Result<void> validate_device(const DeviceRecord& record) {
  if (!is_device_id(record.id)) return wrong("the id is not a uuid in lower case");
  if (device_kind_name(record.kind) == "unknown") return wrong("the kind is none");
  if (device_state_name(record.state) == "unknown") return wrong("the state is none");
  if (record.path.empty() || record.path.size() > kDevicePathBytesMax || !is_clean(record.path)) {
    return wrong("a path has 1 to " + std::to_string(kDevicePathBytesMax) +
                 " bytes and no control characters");
  }
  LARDER_TRY(meta::validate_name("device record: owner", record.owner.stable_id));
  if (record.owner.epoch == 0 || record.owner.epoch > meta::kEpochMax) {
    return wrong("the owner's epoch is out of range");
  }
  if (record.capacity == 0 || record.capacity > kDeviceBytesMax) {
    return wrong("the capacity is not 1 byte to 1 EiB");
  }
  if (record.used > record.capacity || record.reserved > record.capacity - record.used) {
    return wrong("more is used and reserved than the device holds");
  }
  if (record.last_error.size() > kDeviceErrorBytesMax || !is_clean(record.last_error)) {
    return wrong("the last error is too long, or has control characters");
  }
  if (record.updated_at < 0 || record.updated_at > meta::kTimeMax) {
    return wrong("the time of the change is out of range");
  }
  return {};
}

Result<std::string> encode_device(const DeviceRecord& record) {
  LARDER_TRY(validate_device(record));
  const Json object{{"format", kFormat},
                    {"id", record.id},
                    {"kind", kKindNames[static_cast<std::size_t>(record.kind)]},
                    {"path", record.path},
                    {"owner", record.owner.stable_id},
                    {"epoch", record.owner.epoch},
                    {"state", kStateNames[static_cast<std::size_t>(record.state)]},
                    {"capacity", record.capacity},
                    {"used", record.used},
                    {"reserved", record.reserved},
                    {"failures", record.failures},
                    {"last_error", record.last_error},
                    {"updated_at", static_cast<std::uint64_t>(record.updated_at)}};
  try {
    return object.dump();
  } catch (const Json::exception&) {  // for want of UTF-8
    return wrong("path, owner or last error is not UTF-8");
  }
}

Result<DeviceRecord> decode_device(std::string_view text) {
  if (text.size() > meta::kRecordBytesMax) {
    return fail(Code::kCorrupt, "device record: too long");
  }
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return fail(Code::kCorrupt, "device record: not a JSON object");
  LARDER_ASSIGN(DeviceRecord record, take_record(object));
  if (const auto valid = validate_device(record); !valid) {
    return fail(Code::kCorrupt, valid.error().message());
  }
  return record;
}

bool may_follow(DeviceState from, DeviceState to, DeviceActor actor) noexcept {
  constexpr unsigned kNobody = 0;
  constexpr unsigned kOwner = 1U << static_cast<unsigned>(DeviceActor::kOwner);
  constexpr unsigned kAdmin = 1U << static_cast<unsigned>(DeviceActor::kAdmin);
  // What an operator said lasts until an operator takes it back: a disabled device stays so
  // whatever it does, and a draining one can only fail. A failed one is not asked for again before
  // an operator says so or its node registers it anew.
  constexpr std::array<std::array<unsigned, kDeviceStates>, kDeviceStates> kMayFollow = {{
      // to healthy, full, draining, failed, disabled
      {kNobody, kOwner, kAdmin, kOwner, kAdmin},   // healthy
      {kOwner, kNobody, kAdmin, kOwner, kAdmin},   // full
      {kAdmin, kNobody, kNobody, kOwner, kAdmin},  // draining
      {kAdmin, kNobody, kAdmin, kNobody, kAdmin},  // failed
      {kAdmin, kNobody, kAdmin, kNobody, kNobody}  // disabled
  }};
  const auto row = static_cast<std::size_t>(from);
  const auto column = static_cast<std::size_t>(to);
  if (row >= kDeviceStates || column >= kDeviceStates) return false;
  return (kMayFollow[row][column] & 1U << static_cast<unsigned>(actor)) != 0;
}

}  // namespace larder::tier
