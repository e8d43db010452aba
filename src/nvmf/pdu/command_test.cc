// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/command.h"

#include <gtest/gtest.h>

#include "nvmf/pdu/properties.h"

namespace larder::nvmf {
namespace {

TEST(Command, RangeAndItsInverse) {
  Command command;
  command.cdw12 = kForceUnitAccess;
  command.set_range(0x1234'5678'9ABC'DEF0ULL, kRangeBlocksMax);
  EXPECT_EQ(command.lba(), 0x1234'5678'9ABC'DEF0ULL);
  EXPECT_EQ(command.blocks(), kRangeBlocksMax);
  EXPECT_NE(command.cdw12 & kForceUnitAccess, 0U);
  command.set_range(0, 1);
  EXPECT_EQ(command.blocks(), 1U);
}

TEST(Command, LogRequestAndItsInverse) {
  const LogRequest asked{0x70, true, 1ULL << 20U, 0x1'0000'0400ULL};
  Command command;
  asked.put_into(command);
  const LogRequest got = LogRequest::from(command);
  EXPECT_EQ(got.page, asked.page);
  EXPECT_TRUE(got.retain_event);
  EXPECT_EQ(got.bytes, asked.bytes);
  EXPECT_EQ(got.offset, asked.offset);
}

TEST(Command, OverlaysShareTheirBytes) {
  ConnectCommand connect;
  connect.cid = 7;
  connect.qid = 3;
  connect.kato_ms = 5000;
  const auto command = __builtin_bit_cast(Command, connect);
  EXPECT_EQ(command.opcode, kFabricsOpcode);
  EXPECT_EQ(command.nsid & 0xFFU, static_cast<unsigned>(FabricsType::kConnect));
  EXPECT_EQ(command.cdw10, 3U << 16U);
  EXPECT_EQ(command.cdw12, 5000U);
  EXPECT_EQ(command_as<ConnectCommand>(command).qid, 3U);
}

TEST(Status, BitsAndTheirInverse) {
  for (unsigned bits = 0; bits < 1U << 15U; ++bits) {
    const auto status = Status::from_bits(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(status.bits(), bits);
  }
  Completion completion;
  completion.set_result(refused(Sc::kLbaOutOfRange));
  EXPECT_EQ(completion.status, (0x80U | 1U << 14U) << 1U);
  EXPECT_EQ(completion.result(), refused(Sc::kLbaOutOfRange));
}

TEST(Status, WordsSayWhatAndHow) {
  EXPECT_EQ(to_string(refused(Sc::kLbaOutOfRange)),
            "LBA out of range (status 0/80h, do not retry)");
  EXPECT_EQ(to_string(failed(static_cast<Sc>(0x7FF))), "status 7/ffh (status 7/ffh)");
  EXPECT_EQ(code_of({}), Code::kOk);
  EXPECT_EQ(code_of(failed(Sc::kCapacityExceeded)), Code::kExhausted);
  EXPECT_EQ(code_of(failed(static_cast<Sc>(0x7FF))), Code::kUnavailable);
}

TEST(Properties, FieldsAreWhereTheyBelong) {
  const Cap cap{0x80000201E01007FULL};  // as SPDK's target says
  EXPECT_EQ(cap.queue_entries_max(), 128U);
  EXPECT_EQ(cap.ready_timeout_ms(), 15'000U);
  EXPECT_TRUE(cap.nvm_command_set());
  const Cap linux_cap{0x8200F0003FFULL};
  EXPECT_EQ(linux_cap.queue_entries_max(), 1024U);
  EXPECT_EQ(linux_cap.ready_timeout_ms(), 7'500U);
  const Cap made = Cap::make(128, 5000);
  EXPECT_EQ(made.queue_entries_max(), 128U);
  EXPECT_EQ(made.ready_timeout_ms(), 5000U);
  EXPECT_EQ(made.page_shift_min(), 12U);
  const Cc cc = Cc::enabled();
  EXPECT_EQ(cc.bits, 0x460001U);
  EXPECT_EQ(cc.with_shutdown().shutdown(), kShutdownNormal);
  EXPECT_EQ(property_bytes(0), 8U);
  EXPECT_EQ(property_bytes(4), 0U);
}

TEST(AsyncEvent, BitsAndTheirInverse) {
  const AsyncEvent event{kEventNotice, kNoticeNamespaceChanged, 4};
  EXPECT_EQ(event.dw0(), 0x040002U);
  EXPECT_EQ(AsyncEvent::from(event.dw0()).page, 4U);
}

}  // namespace
}  // namespace larder::nvmf
