// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/identify.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/bytes.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/log_page.h"

namespace larder::nvmf {
namespace {

using Page = std::array<std::byte, kIdentifyBytes>;

TEST(Identify, LimitsInBytes) {
  IdentifyController id;
  id.sgls = kSglsAny | kSglsOffset;
  id.mdts = 8;
  id.ioccsz = 1028;
  id.kas = 10;
  id.vwc = 1;
  auto limits = limits_of(id, 12);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->transfer_max, 1ULL << 20U);
  EXPECT_EQ(limits->in_capsule_max, 16'384U);
  EXPECT_EQ(limits->keep_alive_step_ms, 1000U);
  EXPECT_TRUE(limits->volatile_cache);
  id.icdoff = 64;
  id.mdts = 255;
  limits = limits_of(id, 12);
  EXPECT_EQ(limits->in_capsule_max, 16'384U - 1024U);
  EXPECT_EQ(limits->transfer_max, 0U);
  id.ioccsz = 4;
  EXPECT_EQ(limits_of(id, 12)->in_capsule_max, 0U);
  id.sgls = 0;
  EXPECT_EQ(limits_of(id, 12).error().code(), Code::kUnsupported);
}

TEST(Identify, ShapeOfANamespace) {
  IdentifyNamespace id;
  EXPECT_EQ(shape_of(id).error().code(), Code::kNotFound);
  id.nsze = 100;
  EXPECT_EQ(shape_of(id).error().code(), Code::kUnsupported);  // LBADS 0
  id.formats[0].lbads = 12;
  id.nsattr = 1;
  id.dlfeat = 1;
  const auto shape = shape_of(id);
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->block_bytes, 4096U);
  EXPECT_TRUE(shape->write_protected);
  EXPECT_TRUE(shape->deallocate_zeroes);
  id.formats[0].ms = 8;
  EXPECT_EQ(shape_of(id).error().code(), Code::kUnsupported);
  id.formats[0].ms = 0;
  id.nsze = 1ULL << 60U;
  EXPECT_EQ(shape_of(id).error().code(), Code::kCorrupt);
  id.nsze = 1;
  id.flbas = 1;
  EXPECT_EQ(shape_of(id).error().code(), Code::kCorrupt);
}

TEST(Identify, DescriptorsAndTheirInverse) {
  NamespaceIds ids;
  ids.nguid = {1, 2, 3};
  ids.has_nguid = true;
  ids.uuid = {9};
  ids.has_uuid = true;
  Page page{};
  encode_ids(ids, page);
  EXPECT_EQ(*decode_ids(page), ids);
  page[1] = std::byte{15};
  EXPECT_EQ(decode_ids(page).error().code(), Code::kCorrupt);
}

TEST(Identify, DescriptorBeyondTheEnd) {
  Page page{};
  // Types that nobody knows, of 255 bytes each: the last does not fit.
  for (std::size_t at = 0; at + 4 <= page.size(); at += 4 + 255) {
    page[at] = std::byte{200};
    page[at + 1] = std::byte{255};
  }
  EXPECT_EQ(decode_ids(page).error().code(), Code::kCorrupt);
}

TEST(Identify, ActiveNamespacesAscend) {
  Page page{};
  store_le(page.data(), 1U);
  store_le(page.data() + 4, 7U);
  EXPECT_EQ(*decode_active(page, 0), (std::vector<std::uint32_t>{1, 7}));
  EXPECT_EQ(decode_active(page, 1).error().code(), Code::kCorrupt);
  store_le(page.data() + 8, 7U);
  EXPECT_EQ(decode_active(page, 0).error().code(), Code::kCorrupt);
}

TEST(Identify, TextOfFields) {
  std::array<char, 8> field{};
  put_field(field, "ab", ' ');
  EXPECT_EQ(field_text(field), "ab");
  put_field(field, "a\nb too long", ' ');
  EXPECT_EQ(field_text(field), "a?b too");
}

TEST(Nqn, Rules) {
  EXPECT_TRUE(check_nqn(kDiscoveryNqn));
  EXPECT_TRUE(check_nqn("nqn.2024-01.io.test:sub1"));
  EXPECT_TRUE(check_nqn("nqn.2024-01.io.test:gr\xC3\xBC\xC3\x9F"));
  EXPECT_FALSE(check_nqn(""));
  EXPECT_FALSE(check_nqn("nqn."));
  EXPECT_FALSE(check_nqn("iqn.2024-01.io.test"));
  EXPECT_FALSE(check_nqn("nqn.2024-01.io test"));
  EXPECT_FALSE(check_nqn("nqn.\xC0\xAF"));
  EXPECT_FALSE(check_nqn("nqn.\xED\xA0\x80"));
  EXPECT_FALSE(check_nqn("nqn.\xE2\x82"));
  EXPECT_TRUE(check_nqn("nqn." + std::string(kNqnBytesMax - 4, 'a')));
  EXPECT_FALSE(check_nqn("nqn." + std::string(kNqnBytesMax - 3, 'a')));
  ConnectData data;
  EXPECT_EQ(decode_nqn(data.subnqn).error().code(), Code::kCorrupt);
  encode_nqn("nqn.a:b", data.subnqn);
  EXPECT_EQ(*decode_nqn(data.subnqn), "nqn.a:b");
  data.subnqn.fill('n');
  EXPECT_EQ(decode_nqn(data.subnqn).error().code(), Code::kCorrupt);
}

TEST(Uuid, TextAndItsInverse) {
  const std::string text = "01234567-89ab-cdef-0123-456789abcdef";
  const auto id = parse_uuid(text);
  ASSERT_TRUE(id);
  EXPECT_EQ(uuid_text(*id), text);
  EXPECT_FALSE(is_zero(*id));
  EXPECT_FALSE(parse_uuid("01234567-89ab-cdef-0123-456789abcde"));
  EXPECT_FALSE(parse_uuid("01234567089ab-cdef-0123-456789abcdef"));
  EXPECT_FALSE(parse_uuid("0123456x-89ab-cdef-0123-456789abcdef"));
}

TEST(LogPage, DiscoveryEntryAndItsInverse) {
  const DiscoveryEntry entry = make_entry(SubsystemType::kNvm, AddressFamily::kIpv4, "127.0.0.1",
                                          "4420", "nqn.2024-01.io.test:sub1", 1);
  auto got = decode_entry(entry);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->address, "127.0.0.1");
  EXPECT_EQ(got->port, "4420");
  EXPECT_EQ(got->nqn, "nqn.2024-01.io.test:sub1");
  EXPECT_EQ(got->type, static_cast<std::uint8_t>(SubsystemType::kNvm));
  EXPECT_FALSE(got->secure);
  DiscoveryEntry bad = entry;
  bad.subnqn.fill('x');
  EXPECT_FALSE(decode_entry(bad));
}

}  // namespace
}  // namespace larder::nvmf
