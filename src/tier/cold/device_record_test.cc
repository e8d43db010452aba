// SPDX-License-Identifier: Apache-2.0
#include "tier/cold/device_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tier/cold/device_testing.h"

namespace larder::tier {
namespace {

TEST(DeviceRecord, WhatIsEncodedIsDecoded) {
  DeviceRecord record = sample_device();
  for (std::size_t state = 0; state < kDeviceStates; ++state) {
    record.state = static_cast<DeviceState>(state);
    record.kind = static_cast<DeviceKind>(state % 3);
    EXPECT_EQ(decode_device(encode_device(record).value()).value(), record);
  }
  record.path = "/d/\"q\\\xc3\xa4";
  record.capacity = kDeviceBytesMax;
  record.used = kDeviceBytesMax - 1;
  record.reserved = 1;
  record.failures = UINT64_MAX;
  record.owner.epoch = meta::kEpochMax;
  record.updated_at = meta::kTimeMax;
  record.last_error = std::string(kDeviceErrorBytesMax, '"');
  EXPECT_EQ(decode_device(encode_device(record).value()).value(), record);
}

// The stored form: other versions and other programs read it.
TEST(DeviceRecord, GoldenText) {
  EXPECT_EQ(encode_device(sample_device()).value(),
            R"({"format":1,"id":"0123abcd-4567-89ef-0123-456789abcdef","kind":"file",)"
            R"("path":"/srv/cold","owner":"node-a","epoch":7,"state":"healthy","capacity":1000,)"
            R"("used":10,"reserved":20,"failures":3,"last_error":"EIO","updated_at":5})");
}

TEST(DeviceRecord, WrongFieldsAreRefusedAndNamed) {
  const std::vector<std::pair<std::string, std::function<void(DeviceRecord&)>>> wrong = {
      {"uuid", [](DeviceRecord& r) { r.id = "0123ABCD-4567-89ef-0123-456789abcdef"; }},
      {"uuid", [](DeviceRecord& r) { r.id.pop_back(); }},
      {"uuid", [](DeviceRecord& r) { r.id += "0"; }},
      {"uuid", [](DeviceRecord& r) { r.id[8] = '0'; }},
      {"kind", [](DeviceRecord& r) { r.kind = static_cast<DeviceKind>(3); }},
      {"state", [](DeviceRecord& r) { r.state = static_cast<DeviceState>(5); }},
      {"path", [](DeviceRecord& r) { r.path.clear(); }},
      {"path", [](DeviceRecord& r) { r.path.assign(kDevicePathBytesMax + 1, 'p'); }},
      {"path", [](DeviceRecord& r) { r.path = "/a\nb"; }},
      {"owner", [](DeviceRecord& r) { r.owner.stable_id.clear(); }},
      {"owner", [](DeviceRecord& r) { r.owner.stable_id.assign(256, 'o'); }},
      {"epoch", [](DeviceRecord& r) { r.owner.epoch = 0; }},
      {"epoch", [](DeviceRecord& r) { r.owner.epoch = meta::kEpochMax + 1; }},
      {"capacity", [](DeviceRecord& r) { r.capacity = 0; }},
      {"capacity", [](DeviceRecord& r) { r.capacity = kDeviceBytesMax + 1; }},
      {"used", [](DeviceRecord& r) { r.used = 1001; }},
      {"used", [](DeviceRecord& r) { r.reserved = 991; }},
      {"used", [](DeviceRecord& r) { r.reserved = UINT64_MAX; }},
      {"error", [](DeviceRecord& r) { r.last_error.assign(kDeviceErrorBytesMax + 1, 'e'); }},
      {"error", [](DeviceRecord& r) { r.last_error = "\x1b[31m"; }},
      {"time", [](DeviceRecord& r) { r.updated_at = -1; }},
      {"time", [](DeviceRecord& r) { r.updated_at = meta::kTimeMax + 1; }},
      {"UTF-8", [](DeviceRecord& r) { r.path = "/\xff"; }},
  };
  for (const auto& [word, spoil] : wrong) {
    DeviceRecord record = sample_device();
    spoil(record);
    const auto encoded = encode_device(record);
    ASSERT_FALSE(encoded) << word;
    EXPECT_EQ(encoded.error().code(), Code::kInvalidArgument);
    EXPECT_NE(encoded.error().message().find(word), std::string::npos) << encoded.error().message();
  }
}

TEST(DeviceRecord, WrongTextIsCorrupt) {
  const std::string good = encode_device(sample_device()).value();
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), instead);
  };
  const std::vector<std::string> wrong = {
      "",
      "null",
      "[]",
      "{}",
      good.substr(0, good.size() - 1),
      good + "x",
      std::string(40'000, '['),
      std::string(meta::kRecordBytesMax, ' ') + good,
      with("\"format\":1", "\"format\":0"),
      with("\"format\":1", "\"format\":\"1\""),
      with("\"id\":\"0", "\"id\":\"g"),
      with("\"kind\":\"file\"", "\"kind\":\"tape\""),
      with("\"kind\":\"file\"", "\"kind\":0"),
      with("\"state\":\"healthy\"", "\"state\":\"fine\""),
      with("\"capacity\":1000", "\"capacity\":-1000"),
      with("\"capacity\":1000", "\"capacity\":1e3"),
      with("\"capacity\":1000", "\"capacity\":29"),
      with("\"used\":10", "\"used\":18446744073709551616"),
      with("\"epoch\":7", "\"epoch\":0"),
      with("\"epoch\":7,", ""),
      with("\"last_error\":\"EIO\"", "\"last_error\":null"),
      with("\"last_error\":\"EIO\"", "\"last_error\":\"\\u001b\""),
      with("\"updated_at\":5", "\"updated_at\":18446744073709551615"),
      with("/srv/cold", "/\xff"),
  };
  for (const std::string& text : wrong) {
    const auto decoded = decode_device(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code(), Code::kCorrupt) << text;
    EXPECT_EQ(decoded.error().message().find("device record: "), 0U);
  }
}

TEST(DeviceRecord, LaterFormatsAreRefusedFurtherFieldsPassedOver) {
  std::string text = encode_device(sample_device()).value();
  text.insert(1, "\"colour\":[1,{\"a\":2}],");
  EXPECT_EQ(decode_device(text).value(), sample_device());
  text.replace(text.find("\"format\":1"), 10, "\"format\":2");
  EXPECT_EQ(decode_device(text).error().code(), Code::kVersionMismatch);
}

TEST(DeviceRecord, ErrorTextsAreMadeFit) {
  EXPECT_EQ(device_error_text("write: \n\xc3\xa4 EIO\x7f"), "write: ??? EIO?");
  EXPECT_EQ(device_error_text(std::string(9999, 'x')).size(), kDeviceErrorBytesMax);
}

TEST(DeviceState, WhatMayFollowWhat) {
  using enum DeviceState;
  struct Row {
    DeviceState from;
    DeviceState to;
    bool owner;
    bool admin;
  };
  const std::vector<Row> allowed = {
      {kHealthy, kFull, true, false},
      {kHealthy, kDraining, false, true},
      {kHealthy, kFailed, true, false},
      {kHealthy, kDisabledByAdmin, false, true},
      {kFull, kHealthy, true, false},
      {kFull, kDraining, false, true},
      {kFull, kFailed, true, false},
      {kFull, kDisabledByAdmin, false, true},
      {kDraining, kHealthy, false, true},
      {kDraining, kFailed, true, false},
      {kDraining, kDisabledByAdmin, false, true},
      {kFailed, kHealthy, false, true},
      {kFailed, kDraining, false, true},
      {kFailed, kDisabledByAdmin, false, true},
      {kDisabledByAdmin, kHealthy, false, true},
      {kDisabledByAdmin, kDraining, false, true},
  };
  for (std::size_t from = 0; from <= kDeviceStates; ++from) {
    for (std::size_t to = 0; to <= kDeviceStates; ++to) {
      bool owner = false;
      bool admin = false;
      for (const Row& row : allowed) {
        if (static_cast<std::size_t>(row.from) != from || static_cast<std::size_t>(row.to) != to) {
          continue;
        }
        owner = row.owner;
        admin = row.admin;
      }
      const auto a = static_cast<DeviceState>(from);
      const auto b = static_cast<DeviceState>(to);
      EXPECT_EQ(may_follow(a, b, DeviceActor::kOwner), owner) << from << " to " << to;
      EXPECT_EQ(may_follow(a, b, DeviceActor::kAdmin), admin) << from << " to " << to;
    }
  }
}

TEST(DeviceState, Names) {
  EXPECT_EQ(device_state_name(DeviceState::kHealthy), "healthy");
  EXPECT_EQ(device_state_name(DeviceState::kDisabledByAdmin), "disabled_by_admin");
  EXPECT_EQ(device_state_name(static_cast<DeviceState>(9)), "unknown");
  EXPECT_EQ(device_kind_name(DeviceKind::kRaw), "raw");
  EXPECT_EQ(device_kind_name(static_cast<DeviceKind>(9)), "unknown");
}

}  // namespace
}  // namespace larder::tier
