// SPDX-License-Identifier: Apache-2.0
// For tests: every platform, with what a test needs to look behind it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "env/clock.h"
#include "platform/cpu.h"
#include "platform/cuda.h"
#include "platform/cuda_testing.h"
#include "platform/platform.h"
#include "platform/sim.h"

namespace larder::platform {

using Bytes = std::vector<std::byte>;

inline Bytes make_bytes(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

inline constexpr std::uint64_t kBedDeviceBytes = 4 << 20;  // what each device may hand out

// A platform to test on. The memory it allocates is "device" memory here, also that of cpu.
class Bed {
 public:
  virtual ~Bed() = default;
  virtual Platform* platform() = 0;  // null: cannot be had on this host
  virtual env::Clock& clock() = 0;
  virtual void fill(void* device_ptr, const Bytes& from) = 0;
  virtual Bytes read(const void* device_ptr, std::size_t bytes) = 0;
  virtual void let_copies_end() {}        // those in flight
  virtual void let_waits_end() {}         // those in flight, while somebody waits
  virtual bool holds_copies() const = 0;  // a copy surely does not end before let_copies_end()
  virtual bool takes_all() const { return false; }  // every range is this platform's memory
};

class CpuBed final : public Bed {
 public:
  Platform* platform() override { return &cpu_; }
  env::Clock& clock() override { return clock_; }
  void fill(void* ptr, const Bytes& from) override { std::memcpy(ptr, from.data(), from.size()); }
  Bytes read(const void* ptr, std::size_t bytes) override {
    const auto* at = static_cast<const std::byte*>(ptr);
    return {at, at + bytes};
  }
  bool holds_copies() const override { return false; }
  bool takes_all() const override { return true; }

 private:
  static CpuOptions options() {
    CpuOptions options;
    options.memory_limit = kBedDeviceBytes;
    return options;
  }
  env::ManualClock clock_;
  CpuPlatform cpu_{options()};
};

class SimBed final : public Bed {
 public:
  explicit SimBed(MemoryType type) {
    SimOptions options;
    options.type = type;
    options.devices = 2;
    options.device_bytes = kBedDeviceBytes;
    options.in = {1'000'000'000, 10 * env::kMicro};
    options.out = {500'000'000, 5 * env::kMicro};
    options.within = {0, env::kMicro};
    options.clock = &clock_;
    sim_ = SimPlatform::create(options).value();
  }
  Platform* platform() override { return sim_.get(); }
  env::Clock& clock() override { return clock_; }
  void fill(void* ptr, const Bytes& from) override { ASSERT_TRUE(sim_->poke(ptr, from)); }
  Bytes read(const void* ptr, std::size_t bytes) override {
    Bytes got(bytes);
    EXPECT_TRUE(sim_->peek(ptr, got));
    return got;
  }
  void let_copies_end() override { clock_.advance(env::kSecond); }
  bool holds_copies() const override { return true; }

 private:
  env::ManualClock clock_;
  std::unique_ptr<SimPlatform> sim_;
};

class FakeCudaBed final : public Bed {
 public:
  FakeCudaBed() {
    CudaOptions options;
    options.driver = fake_.driver();
    options.clock = &clock_;
    options.device_limit = kBedDeviceBytes;
    cuda_ = CudaPlatform::create(options).value();
  }
  Platform* platform() override { return cuda_.get(); }
  env::Clock& clock() override { return clock_; }
  void fill(void* ptr, const Bytes& from) override { std::memcpy(ptr, from.data(), from.size()); }
  Bytes read(const void* ptr, std::size_t bytes) override {
    const auto* at = static_cast<const std::byte*>(ptr);
    return {at, at + bytes};
  }
  void let_copies_end() override { fake_.complete(); }
  void let_waits_end() override { fake_.copies_per_query = 1; }
  bool holds_copies() const override { return true; }

 private:
  FakeCuda fake_;
  env::ManualClock clock_;
  std::unique_ptr<CudaPlatform> cuda_;
};

// On a host with a GPU: the same tests on the real driver.
class RealCudaBed final : public Bed {
 public:
  RealCudaBed() {
    CudaOptions options;
    options.device_limit = kBedDeviceBytes;
    auto made = CudaPlatform::create(options);
    if (!made) return;
    cuda_ = std::move(*made);
    engine_ = cuda_->create_copier({}).value();
  }
  Platform* platform() override { return cuda_.get(); }
  env::Clock& clock() override { return env::system_clock(); }
  void fill(void* ptr, const Bytes& from) override { move(ptr, from.data(), from.size()); }
  Bytes read(const void* ptr, std::size_t bytes) override {
    Bytes got(bytes);
    move(got.data(), ptr, bytes);
    return got;
  }
  bool holds_copies() const override { return false; }

 private:
  void move(void* dst, const void* src, std::size_t bytes) {
    ASSERT_TRUE(engine_->submit({dst, src, bytes, 0}));
    CopyDone done;
    ASSERT_EQ(engine_->wait({&done, 1}, clock().now() + 10 * env::kSecond), 1U);
    ASSERT_TRUE(done.result) << done.result.error().to_string();
  }
  std::unique_ptr<CudaPlatform> cuda_;
  std::unique_ptr<CopyEngine> engine_;
};

struct BedKind {
  std::string name;
  std::function<std::unique_ptr<Bed>()> make;
};

inline std::vector<BedKind> all_beds() {
  return {
      {"cpu", [] { return std::make_unique<CpuBed>(); }},
      {"sim_cuda", [] { return std::make_unique<SimBed>(MemoryType::kCuda); }},
      {"sim_npu", [] { return std::make_unique<SimBed>(MemoryType::kNpu); }},
      {"cuda_on_fake", [] { return std::make_unique<FakeCudaBed>(); }},
      {"cuda", [] { return std::make_unique<RealCudaBed>(); }},
  };
}
inline std::string bed_name(const testing::TestParamInfo<BedKind>& info) {
  return info.param.name;
}

// Skips where the platform cannot be had.
class BedTest : public testing::TestWithParam<BedKind> {
 protected:
  void SetUp() override {
    bed = GetParam().make();
    platform = bed->platform();
    if (platform == nullptr) GTEST_SKIP() << "no such device on this host";
  }
  std::unique_ptr<Bed> bed;
  Platform* platform = nullptr;
};

}  // namespace larder::platform
