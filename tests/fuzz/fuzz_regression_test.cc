// SPDX-License-Identifier: Apache-2.0
// Replays the seeds and every input that once broke something. A violated rule aborts the process
// after saying what it was.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#define FUZZ_TARGET(name) extern "C" int run_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace {

using Run = int (*)(const std::uint8_t*, std::size_t);

std::vector<std::uint8_t> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Each input whole, and cut short, which is the commonest damage.
void replay(const std::string& name, Run run) {
  run(nullptr, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LARDER_CORPUS "/" + name)) {
    SCOPED_TRACE(entry.path().string());
    const std::vector<std::uint8_t> input = read(entry.path());
    run(input.data(), input.size());
    for (std::size_t cut = input.size(); cut > 0 && input.size() - cut < 64; --cut) {
      run(input.data(), cut - 1);
    }
    ++files;
  }
  EXPECT_GT(files, 0) << "no corpus for " << name;
}

}  // namespace

#define FUZZ_TARGET(name)      \
  TEST(FuzzRegression, name) { \
    replay(#name, run_##name); \
  }
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
