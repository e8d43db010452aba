// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace larder::env {

// The seeds that a randomized test runs. The environment decides, so that one that failed can be
// run again alone: LARDER_SEED=n runs that one, LARDER_SEEDS=n that many from 1 on.
struct TestSeeds {
  std::uint64_t first = 1;
  std::uint64_t count = 0;
  bool alone = false;  // LARDER_SEED was given

  std::uint64_t end() const noexcept { return first + count; }
};
// `usual`: how many without the environment's word. What is no number counts as not given.
TestSeeds test_seeds(std::uint64_t usual);
// For SCOPED_TRACE: "seed 7; again: LARDER_SEED=7 PROGRAM --gtest_filter=FILTER".
std::string seed_trace(std::uint64_t seed, const char* program, const char* filter);

}  // namespace larder::env
