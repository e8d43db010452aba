// SPDX-License-Identifier: Apache-2.0
// Configuration text: whatever is accepted prints as text that is accepted and means the same, and
// whatever is refused changes nothing.
#include <chrono>
#include <string>
#include <vector>

#include "env/config.h"
#include "tests/fuzz/fuzz_input.h"

using larder::fuzz::FuzzInput;
using larder::fuzz::require;
namespace env = larder::env;

namespace {

struct Values {
  std::string text;
  bool flag = false;
  std::uint64_t number = 0;
  double ratio = 0;
  std::uint64_t size = 0;
  std::chrono::nanoseconds duration{0};
  std::string choice;
  std::vector<std::string> list;
  bool operator==(const Values&) const = default;
};

env::Config make_config(Values& values) {
  env::ConfigSchema schema;
  schema.add_string("a.text", "x", {}, "text", env::into(values.text))
      .add_bool("a.flag", true, "flag", env::into(values.flag))
      .add_u64("number", 7, {.min = 1, .max = 1000}, "number", env::into(values.number))
      .add_ratio("a.b.ratio", "50%", {}, "ratio", env::into(values.ratio))
      .add_size("a.b.size", "4KiB", {}, "size", env::into(values.size))
      .add_duration("duration", "1s", {}, "duration", env::into(values.duration))
      .add_enum("choice", "one", {"one", "two"}, "choice", env::into(values.choice))
      .add_list("list", "", {.items_min = 0, .items_max = 4}, "list", env::into(values.list));
  auto config = env::Config::create(std::move(schema));
  require(config.has_value(), "the table is good");
  return std::move(*config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Values values;
  env::Config config = make_config(values);
  const Values before = values;
  const auto loaded = config.load_yaml(FuzzInput(data, size).rest(), "fuzz.yaml");
  if (!loaded) {
    require(values == before, "a load that fails changes nothing");
    require(loaded.error().code() == larder::Code::kInvalidArgument, "it is the text's fault");
    require(!loaded.error().message().empty() && loaded.error().message().size() < 4096,
            "and one error of reasonable length says why");
    return 0;
  }
  Values again;
  env::Config second = make_config(again);
  require(second.load_yaml(config.dump(), "dump.yaml").has_value(), "dump() can be loaded");
  require(again == values, "and means the same");
  return 0;
}
