// SPDX-License-Identifier: Apache-2.0
#include "platform/cpu.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "env/temp_directory.h"
#include "platform/stream_copy.h"

namespace larder::platform {
namespace {

constexpr auto kCpu = MemoryType::kCpu;

// Nobody touches these addresses; the nodes are what the test says.
std::byte* address(std::uint64_t page, std::uint64_t offset = 0) {
  return reinterpret_cast<std::byte*>((1ULL << 40) + page * kPageBytes + offset);
}
std::uint64_t page_number(const void* at) {
  return (reinterpret_cast<std::uintptr_t>(at) - (1ULL << 40)) / kPageBytes;
}
PageQuery nodes_by(std::function<int(std::uint64_t page)> node) {
  return [node = std::move(node)](std::span<void*> pages, std::span<int> nodes) {
    for (std::size_t i = 0; i < pages.size(); ++i) nodes[i] = node(page_number(pages[i]));
    return 0;
  };
}

void expect_seamless(const std::vector<Region>& regions, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (const Region& region : regions) {
    EXPECT_EQ(region.offset, at);
    EXPECT_GT(region.bytes, 0U);
    at += region.bytes;
  }
  EXPECT_EQ(at, bytes);
  EXPECT_LE(regions.size(), kRegionsMax);
}

TEST(Numa, RegionsFollowTheNodesOfPages) {
  const auto query = nodes_by([](std::uint64_t page) { return page < 3 ? 0 : 1; });
  const auto regions = probe_nodes(address(0, 100), 5 * kPageBytes, query);
  const std::uint64_t first = 3 * kPageBytes - 100;
  EXPECT_EQ(regions, (std::vector<Region>{{0, first, {kCpu, 0}},
                                          {first, 5 * kPageBytes - first, {kCpu, 1}}}));
}

TEST(Numa, PagesThatAreNotThereAreUnknown) {
  const auto query = nodes_by([](std::uint64_t page) {
    constexpr std::array kAnswers = {1, -ENOENT, -EFAULT, 1};
    return kAnswers[page];
  });
  EXPECT_EQ(probe_nodes(address(0), 4 * kPageBytes, query),
            (std::vector<Region>{
                {0, 4096, {kCpu, 1}}, {4096, 8192, {kCpu, -1}}, {12288, 4096, {kCpu, 1}}}));
}

TEST(Numa, AKernelThatDoesNotAnswerLeavesAllUnknown) {
  const PageQuery query = [](std::span<void*>, std::span<int> nodes) {
    std::fill(nodes.begin(), nodes.end(), 5);
    return -EPERM;
  };
  EXPECT_EQ(probe_nodes(address(0), 12345, query), (std::vector<Region>{{0, 12345, {kCpu, -1}}}));
}

TEST(Numa, PiecesOfOnePage) {
  const auto query = nodes_by([](std::uint64_t page) { return int(page); });
  EXPECT_EQ(probe_nodes(address(7, 4095), 1, query), (std::vector<Region>{{0, 1, {kCpu, 7}}}));
  EXPECT_EQ(probe_nodes(address(7, 4095), 2, query),
            (std::vector<Region>{{0, 1, {kCpu, 7}}, {1, 1, {kCpu, 8}}}));
}

TEST(Numa, ManyChangesAreJoinedByMajority) {
  // 1024 pages, each fourth on node 1: 128 pieces of eight pages, six of them on node 0.
  const auto query = nodes_by([](std::uint64_t page) { return page % 4 == 0 ? 1 : 0; });
  EXPECT_EQ(probe_nodes(address(0), 1024 * kPageBytes, query),
            (std::vector<Region>{{0, 1024 * kPageBytes, {kCpu, 0}}}));
  // Eight pages here and eight there, but shifted against the pieces.
  const auto blocks = nodes_by([](std::uint64_t page) { return int((page + 3) / 8 % 2); });
  const auto regions = probe_nodes(address(0), 1024 * kPageBytes, blocks);
  expect_seamless(regions, 1024 * kPageBytes);
  EXPECT_EQ(regions.size(), kRegionsMax);
}

TEST(Numa, KnownNodesWinATie) {
  const auto query = nodes_by([](std::uint64_t page) { return page % 2 == 0 ? -ENOENT : 2; });
  EXPECT_EQ(probe_nodes(address(0), 512 * kPageBytes, query),
            (std::vector<Region>{{0, 512 * kPageBytes, {kCpu, 2}}}));
}

TEST(Numa, LargeRangesAreSampled) {
  constexpr std::uint64_t kBytes = 64ULL << 30;
  std::size_t asked = 0;
  std::uint64_t odd = 0;
  const PageQuery query = [&](std::span<void*> pages, std::span<int> nodes) {
    asked += pages.size();
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const std::uint64_t page = page_number(pages[i]);
      odd += page % 2;
      nodes[i] = page < (kBytes / kPageBytes) / 4 ? 0 : 1;
    }
    return 0;
  };
  const auto regions = probe_nodes(address(0, 17), kBytes, query);
  expect_seamless(regions, kBytes);
  ASSERT_EQ(regions.size(), 2U);
  EXPECT_NEAR(double(regions[0].bytes), double(kBytes) / 4, double(kBytes) / 2048);
  EXPECT_LE(asked, 4096U);
  // Samples that always hit even pages would see one of two interleaved nodes only.
  EXPECT_NEAR(double(odd), double(asked) / 2, double(asked) / 8);
}

TEST(Numa, NodeLists) {
  EXPECT_EQ(parse_node_list("0\n"), std::vector<int>{0});
  EXPECT_EQ(parse_node_list("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(parse_node_list("4095"), std::vector<int>{4095});
  for (const char* nonsense : {"", "x", "1-", "-1", "2-1", "0,0", "3,1", "0-4096", "0,,1", "0,x",
                               "0-99999999999999999999"}) {
    EXPECT_TRUE(parse_node_list(nonsense).empty()) << nonsense;
  }
}

TEST(Numa, TheKernelAnswersOrSaysWhyNot) {
  void* memory =
      ::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kPageBytes);
  std::array<void*, 2> pages = {memory, static_cast<std::byte*>(memory) + kPageBytes};
  std::array<int, 2> nodes = {-99, -99};
  const int rc = query_page_nodes(pages, nodes);
  ::munmap(memory, 2 * kPageBytes);
  if (rc != 0) {  // forbidden in some containers
    EXPECT_LT(rc, 0);
    return;
  }
  EXPECT_GE(nodes[0], 0);
  EXPECT_EQ(nodes[1], -ENOENT);
}

TEST(Numa, PreferenceForANodeThatCannotBeIsRefused) {
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_FALSE(prefer_node(memory, kPageBytes, -1));
  EXPECT_FALSE(prefer_node(memory, kPageBytes, kLocationIndexMax + 1));
  EXPECT_FALSE(prefer_node(memory, kPageBytes, kLocationIndexMax)) << "no host has that many";
  ::munmap(memory, kPageBytes);
}

// A host with the nodes that the test says.
class CpuHostTest : public testing::Test {
 protected:
  CpuPlatform host(const std::string& online, PageQuery query = query_page_nodes) {
    const std::string folder = root.path() + "/sys/devices/system/node";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/online") << online << "\n";
    CpuOptions options;
    options.root = root.path();
    options.page_query = std::move(query);
    return CpuPlatform(options);
  }
  env::TempDirectory root = env::TempDirectory::create("larder-cpu").value();
};

TEST_F(CpuHostTest, OneNodeIsNotAsked) {
  const PageQuery query = [](std::span<void*>, std::span<int>) {
    ADD_FAILURE() << "asked";
    return 0;
  };
  CpuPlatform cpu = host("0", query);
  EXPECT_EQ(cpu.device_count(), 1);
  EXPECT_EQ(cpu.locate(address(0), 10).value(), (Location{kCpu, 0}));
  EXPECT_EQ(cpu.probe(address(0), 99999).value(), (std::vector<Region>{{0, 99999, {kCpu, 0}}}));
  EXPECT_EQ(cpu.allocate(10, -1)->location(), (Location{kCpu, 0}));
}

TEST_F(CpuHostTest, AHostThatDoesNotTellItsNodesHasNodeZero) {
  CpuOptions options;
  options.root = root.path();
  CpuPlatform cpu(options);
  EXPECT_EQ(cpu.device_count(), 1);
  EXPECT_EQ(cpu.locate(address(0), 10).value(), (Location{kCpu, 0}));
}

TEST_F(CpuHostTest, SeveralNodes) {
  CpuPlatform cpu =
      host("0-1,3",
           nodes_by([](std::uint64_t page) { return page == 0 ? 3 : (page == 1 ? -ENOENT : 1); }));
  EXPECT_EQ(cpu.device_count(), 4);
  EXPECT_EQ(cpu.locate(address(0), 3 * kPageBytes).value(), (Location{kCpu, 3}));
  EXPECT_EQ(cpu.locate(address(1), kPageBytes).value(), (Location{kCpu, -1}));
  EXPECT_EQ(cpu.probe(address(0), 3 * kPageBytes)->size(), 3U);
  EXPECT_EQ(cpu.allocate(10, 2).error().code(), Code::kInvalidArgument) << "a gap";
  EXPECT_EQ(cpu.allocate(10, 4).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(cpu.allocate(10, -1)->location(), (Location{kCpu, -1}));
  const auto on_three = cpu.allocate(10, 3);  // this host has none: the preference is not heard
  ASSERT_TRUE(on_three);
  EXPECT_EQ(on_three->location(), (Location{kCpu, 3}));
  on_three->data()[0] = std::byte{1};
  EXPECT_EQ(cpu.used_bytes(), kPageBytes);
}

TEST_F(CpuHostTest, WhereAskingIsForbiddenNodesAreUnknown) {
  CpuPlatform cpu = host("0-1", [](std::span<void*>, std::span<int> nodes) {
    nodes[0] = 1;
    return -EPERM;
  });
  EXPECT_EQ(cpu.locate(address(0), 1).value(), (Location{kCpu, -1}));
}

TEST(Cpu, CopiesAreDoneAtSubmit) {
  CpuPlatform cpu;
  const auto engine = cpu.create_copier({}).value();
  std::array<char, 8> from = {"larder"};
  std::array<char, 8> into{};
  ASSERT_TRUE(engine->submit({into.data(), from.data(), from.size(), 1}));
  EXPECT_EQ(into, from);
  EXPECT_EQ(engine->in_flight(), 0U);
  EXPECT_EQ(engine->outstanding(), 1U);
}

TEST(Cpu, AllocationsAreZero) {
  CpuPlatform cpu;
  const Allocation memory = cpu.allocate(100, 0).value();
  for (std::uint64_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
}

TEST(Cpu, StreamedCopiesAreExact) {
  constexpr std::size_t kRoom = kStreamBytesMin + 512;
  std::vector<unsigned char> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<unsigned char>(i * 131 >> 3U);
  for (std::size_t dst = 0; dst < 130; dst += 13) {
    for (std::size_t bytes = kStreamBytesMin - 1; bytes < kStreamBytesMin + 70; bytes += 23) {
      std::vector<unsigned char> into(kRoom, 0xEE);
      stream_copy(into.data() + dst, from.data() + 3, bytes);
      ASSERT_EQ(std::memcmp(into.data() + dst, from.data() + 3, bytes), 0) << dst << " " << bytes;
      ASSERT_EQ(into[dst + bytes], 0xEE);
      ASSERT_TRUE(dst == 0 || into[dst - 1] == 0xEE);
    }
  }
}

}  // namespace
}  // namespace larder::platform
