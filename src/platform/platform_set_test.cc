// SPDX-License-Identifier: Apache-2.0
#include "platform/platform_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <type_traits>

#include "env/temp_directory.h"
#include "platform/cuda_testing.h"
#include "platform/platform_testing.h"

namespace larder::platform {
namespace {

using Names = std::vector<std::string>;

TEST(ParsePlatforms, Lists) {
  EXPECT_TRUE(parse_platforms(Names{})->empty());
  EXPECT_EQ(parse_platforms(Names{"cpu", "cuda", "sim-npu:2"}).value(),
            (std::vector<PlatformSpec>{{"cpu", MemoryType::kCpu, 1},
                                       {"cuda", MemoryType::kCuda, 1},
                                       {"sim-npu", MemoryType::kNpu, 2}}));
  EXPECT_EQ(parse_platforms(Names{"sim-cuda"}).value(),
            (std::vector<PlatformSpec>{{"sim-cuda", MemoryType::kCuda, 1}}));
}

TEST(ParsePlatforms, Errors) {
  for (const Names& names :
       {Names{""}, Names{"CPU"}, Names{"npu"}, Names{" cpu"}, Names{"cpu:1"}, Names{"cuda:1"},
        Names{"sim-npu:"}, Names{"sim-npu:0"}, Names{"sim-npu:65"}, Names{"sim-npu:x"},
        Names{"sim-npu: 2"}, Names{"sim-npu:02"}, Names{"sim-npu:-1"}, Names{"sim-npu:1:1"},
        Names{"cpu", "cpu"}, Names{"cuda", "sim-cuda"}, Names{"sim-npu", "sim-npu:2"}}) {
    const auto got = parse_platforms(names);
    ASSERT_FALSE(got) << names.back();
    EXPECT_EQ(got.error().code(), Code::kInvalidArgument);
    EXPECT_NE(got.error().message().find("'" + names.back() + "'"), std::string::npos)
        << got.error().message();
  }
}

TEST(PlatformSetCreate, HostMemoryIsAlwaysThereAndLast) {
  const auto empty = PlatformSet::create(Names{}).value();
  ASSERT_EQ(empty.all().size(), 1U);
  EXPECT_EQ(empty.all()[0]->name(), "cpu");
  const auto set = PlatformSet::create(Names{"cpu", "sim-npu:3", "sim-cuda"}).value();
  ASSERT_EQ(set.all().size(), 3U);
  EXPECT_EQ(set.all()[2]->name(), "cpu");
  EXPECT_EQ(set.of(MemoryType::kNpu)->device_count(), 3);
  EXPECT_EQ(set.of(MemoryType::kCuda)->name(), "sim-cuda");
  EXPECT_EQ(empty.of(MemoryType::kNpu), nullptr);
  EXPECT_EQ(set.of(MemoryType::kUnknown), nullptr);
}

TEST(PlatformSetCreate, WhatIsNamedAndCannotBeHadIsAnError) {
  FakeCuda none(0);
  PlatformSetOptions options;
  options.cuda.driver = none.driver();
  const auto set = PlatformSet::create(Names{"cuda"}, options);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code(), Code::kUnsupported);
  EXPECT_TRUE(set.error().message().starts_with("platform 'cuda': ")) << set.error().message();
  EXPECT_EQ(PlatformSet::create(Names{"gpu"}).error().code(), Code::kInvalidArgument);
  FakeCuda some;
  options.cuda.driver = some.driver();
  const auto with_cuda = PlatformSet::create(Names{"cuda"}, options);
  ASSERT_TRUE(with_cuda);
  EXPECT_EQ(with_cuda->of(MemoryType::kCuda)->device_count(), 2);
}

TEST(PlatformSetCreate, PlatformsThatExist) {
  std::vector<std::unique_ptr<Platform>> list;
  list.push_back(SimPlatform::create({}).value());
  const auto set = PlatformSet::create(std::move(list)).value();
  EXPECT_EQ(set.all().size(), 2U);

  std::vector<std::unique_ptr<Platform>> with_null;
  with_null.push_back(nullptr);
  EXPECT_EQ(PlatformSet::create(std::move(with_null)).error().code(), Code::kInvalidArgument);

  std::vector<std::unique_ptr<Platform>> twice;
  twice.push_back(SimPlatform::create({}).value());
  twice.push_back(SimPlatform::create({}).value());
  EXPECT_EQ(PlatformSet::create(std::move(twice)).error().code(), Code::kInvalidArgument);
}

class PlatformSetTest : public testing::Test {
 protected:
  PlatformSet set = PlatformSet::create(Names{"sim-npu:2", "sim-cuda"}).value();
  Allocation npu = set.of(MemoryType::kNpu)->allocate(4096, 1).value();
  Allocation cuda = set.of(MemoryType::kCuda)->allocate(4096, 0).value();
  Bytes host = make_bytes(1, 4096);

  Code code_of_check(const void* ptr, const char* declared) {
    const auto got = set.check(ptr, 64, parse_location(declared).value());
    return got ? Code::kOk : got.error().code();
  }
};

TEST_F(PlatformSetTest, FindsAllKinds) {
  EXPECT_EQ(set.locate(npu.data(), 4096).value(), (Location{MemoryType::kNpu, 1}));
  EXPECT_EQ(set.locate(cuda.data(), 4096).value(), (Location{MemoryType::kCuda, 0}));
  EXPECT_EQ(set.locate(host.data(), 4096)->type, MemoryType::kCpu);
  EXPECT_EQ(set.probe(npu.data(), 64).value(),
            (std::vector<Region>{{0, 64, {MemoryType::kNpu, 1}}}));
  EXPECT_EQ(set.probe(host.data(), 64)->at(0).location.type, MemoryType::kCpu);
}

TEST_F(PlatformSetTest, ErrorsOfARange) {
  EXPECT_EQ(set.locate(npu.data(), 4097).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(set.locate(nullptr, 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(set.locate(host.data(), 0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(set.probe(npu.data(), 4097).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(set.check(npu.data(), 4097, {}).error().code(), Code::kInvalidArgument);
}

TEST_F(PlatformSetTest, TheCallersLocationIsChecked) {
  EXPECT_EQ(code_of_check(npu.data(), "npu:1"), Code::kOk);
  EXPECT_EQ(code_of_check(npu.data(), "npu"), Code::kOk);
  EXPECT_EQ(code_of_check(npu.data(), "*"), Code::kOk);
  EXPECT_EQ(code_of_check(npu.data(), "npu:0"), Code::kInvalidArgument);
  EXPECT_EQ(code_of_check(npu.data(), "cuda:1"), Code::kInvalidArgument);
  EXPECT_EQ(code_of_check(npu.data(), "cpu:0"), Code::kInvalidArgument);
  EXPECT_EQ(code_of_check(cuda.data(), "cpu"), Code::kInvalidArgument);
  EXPECT_EQ(code_of_check(host.data(), "cpu"), Code::kOk);
  EXPECT_EQ(code_of_check(host.data(), "cuda:0"), Code::kInvalidArgument);
  EXPECT_EQ(set.check(npu.data(), 64, {}).value(), (Location{MemoryType::kNpu, 1}));
  const auto wrong = set.check(npu.data(), 64, {MemoryType::kCuda, 7});
  EXPECT_NE(wrong.error().message().find("cuda:7"), std::string::npos);
  EXPECT_NE(wrong.error().message().find("npu:1"), std::string::npos);
}

TEST_F(PlatformSetTest, CopiersBetween) {
  const Location host_memory{MemoryType::kCpu, 0};
  const Location on_npu{MemoryType::kNpu, 1};
  const Location on_cuda{MemoryType::kCuda, 0};
  EXPECT_EQ(set.copier_between(on_npu, host_memory).value()->name(), "sim-npu");
  EXPECT_EQ(set.copier_between(host_memory, on_cuda).value()->name(), "sim-cuda");
  EXPECT_EQ(set.copier_between(on_npu, on_npu).value()->name(), "sim-npu");
  EXPECT_EQ(set.copier_between(host_memory, host_memory).value()->name(), "cpu");
  EXPECT_EQ(set.copier_between(on_npu, on_cuda).error().code(), Code::kUnsupported);
  EXPECT_EQ(set.copier_between({}, host_memory).error().code(), Code::kUnsupported);
  const auto host_only = PlatformSet::create(Names{}).value();
  EXPECT_EQ(host_only.copier_between(host_memory, on_npu).error().code(), Code::kUnsupported);
}

// A host with two nodes, where the first page is on node 0, the second on node 1 and the third
// nowhere yet.
TEST(PlatformSetNuma, NodesOfHostMemoryAreCheckedByTheirPages) {
  const auto root = env::TempDirectory::create("larder-set").value();
  std::filesystem::create_directories(root.path() + "/sys/devices/system/node");
  std::ofstream(root.path() + "/sys/devices/system/node/online") << "0-2\n";
  const auto* base = reinterpret_cast<const std::byte*>(1ULL << 40);
  PlatformSetOptions options;
  options.cpu.root = root.path();
  options.cpu.page_query = [base](std::span<void*> pages, std::span<int> nodes) {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto page = (static_cast<const std::byte*>(pages[i]) - base) / 4096;
      nodes[i] = page == 2 ? -ENOENT : static_cast<int>(page);
    }
    return 0;
  };
  const auto set = PlatformSet::create(Names{"cpu"}, options).value();
  const auto check = [&](std::uint64_t page, std::uint64_t bytes, int node) {
    return set.check(base + page * 4096, bytes, {MemoryType::kCpu, node}).has_value();
  };
  EXPECT_TRUE(check(0, 8192, 0));
  EXPECT_TRUE(check(0, 8192, 1)) << "some of it is there";
  EXPECT_FALSE(check(0, 8192, 2));
  EXPECT_FALSE(check(0, 4096, 1));
  EXPECT_TRUE(check(2, 4096, 1)) << "it may still come there";
}

TEST(PlatformSetNuma, AWrongNodeOfAHostWithOneIsFound) {
  const auto set = PlatformSet::create(Names{}).value();
  if (set.of(MemoryType::kCpu)->device_count() > 1) GTEST_SKIP() << "several nodes";
  const Bytes host(64, std::byte{1});
  EXPECT_TRUE(set.check(host.data(), 64, {MemoryType::kCpu, 0}));
  EXPECT_EQ(set.check(host.data(), 64, {MemoryType::kCpu, 1}).error().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace larder::platform
