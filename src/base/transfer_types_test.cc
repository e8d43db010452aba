// SPDX-License-Identifier: Apache-2.0
#include "larder/transfer_types.h"

#include <gtest/gtest.h>

namespace larder {
namespace {

// Numbers are in configurations, on the wire and in the C API of programs long since compiled.
TEST(TransferTypes, NumbersNeverMove) {
  EXPECT_EQ(static_cast<int>(TransportType::kShm), 3);
  EXPECT_EQ(static_cast<int>(TransportType::kGds), 5);
  EXPECT_EQ(static_cast<int>(TransportType::kIoUring), 6);
  EXPECT_EQ(static_cast<int>(TransportType::kTcp), 7);
  EXPECT_EQ(static_cast<int>(TransportType::kNds), 13);
  EXPECT_EQ(static_cast<int>(TransportType::kMemcpy), 64);
  EXPECT_EQ(static_cast<int>(TransportType::kNvmeTcp), 65);
  EXPECT_EQ(static_cast<int>(Intent::kCheckpoint), 6);
  EXPECT_EQ(static_cast<int>(Resource::kNvmeWrite), 6);
  EXPECT_EQ(static_cast<int>(MemoryType::kNpu), 3);
}

TEST(TransferTypes, NamesComeBack) {
  for (int i = 0; i < static_cast<int>(kIntentCount); ++i) {
    const auto intent = static_cast<Intent>(i);
    EXPECT_EQ(parse_intent(intent_name(intent)).value(), intent);
  }
  for (const auto type :
       {TransportType::kShm, TransportType::kGds, TransportType::kIoUring, TransportType::kTcp,
        TransportType::kNds, TransportType::kMemcpy, TransportType::kNvmeTcp}) {
    EXPECT_NE(transport_name(type), "unknown");
    EXPECT_EQ(parse_transport(transport_name(type)).value(), type);
  }
  for (const auto type : {MemoryType::kCpu, MemoryType::kCuda, MemoryType::kNpu}) {
    EXPECT_EQ(parse_memory_type(memory_type_name(type)).value(), type);
  }
  EXPECT_EQ(parse_class("high").value(), TrafficClass::kHigh);
  EXPECT_EQ(parse_segment_type("file").value(), SegmentType::kFile);
  EXPECT_EQ(transport_name(TransportType::kNvmeTcp), "nvme_tcp");
}

TEST(TransferTypes, WhatIsNotKnownIsAnError) {
  EXPECT_FALSE(parse_transport("unspec"));
  EXPECT_FALSE(parse_transport("TCP"));
  EXPECT_FALSE(parse_memory_type("unknown"));
  EXPECT_FALSE(parse_class("medium"));
  const auto intent = parse_intent("urgent");
  ASSERT_FALSE(intent);
  EXPECT_EQ(intent.error().code(), Code::kInvalidArgument);
  EXPECT_NE(intent.error().message().find("'urgent'"), std::string::npos);
  EXPECT_NE(intent.error().message().find("checkpoint"), std::string::npos);
  EXPECT_EQ(transport_name(static_cast<TransportType>(99)), "unknown");
}

// It is a word of the metrics: who chooses a transport is not led to it.
TEST(TransferTypes, WhatIsOnlyBookedIsNotOffered) {
  EXPECT_TRUE(is_only_booked(TransportType::kNvmeTcp));
  EXPECT_FALSE(is_only_booked(TransportType::kIoUring));
  const auto refused = parse_transport("nvme");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("tcp, nds, memcpy"), std::string::npos);
  EXPECT_EQ(refused.error().message().find("nvme_tcp"), std::string::npos);
}

// A caller that says nothing is served, but never before those who wait.
TEST(TransferTypes, OnlyForegroundIsHigh) {
  EXPECT_EQ(class_of(Intent::kUnknown), TrafficClass::kLow);
  EXPECT_EQ(class_of(Intent::kForegroundHandoff), TrafficClass::kHigh);
  EXPECT_EQ(class_of(Intent::kForegroundPrefixFetch), TrafficClass::kHigh);
  EXPECT_EQ(class_of(Intent::kLocalStoreWrite), TrafficClass::kLow);
  EXPECT_EQ(class_of(static_cast<Intent>(200)), TrafficClass::kLow);
}

}  // namespace
}  // namespace larder
