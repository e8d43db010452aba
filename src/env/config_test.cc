// SPDX-License-Identifier: Apache-2.0
#include "env/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <stdexcept>

namespace larder::env {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct Options {
  std::string name;
  bool verify = false;
  std::uint16_t port = 0;
  double high_water = 0;
  std::uint64_t capacity = 0;
  milliseconds lease{0};
  std::string format;
  std::vector<std::string> peers;
};

ConfigSchema schema_for(Options& o) {
  ConfigSchema schema;
  schema.add_string("node.name", "n1", {.bytes_min = 1, .bytes_max = 16}, "name", into(o.name))
      .add_bool("node.verify", true, "verify checksums", into(o.verify))
      .add_u64("node.port", 7411, {.min = 1, .max = 65535}, "TCP port", into(o.port))
      .add_ratio("hot.high_water", "90%", {.min = 0.1, .max = 1}, "evict above", into(o.high_water))
      .add_size("hot.capacity", "4GiB", {.min = 1 << 20, .max = 1ULL << 40}, "DRAM",
                into(o.capacity))
      .add_duration("meta.lease", "5s", {.min = milliseconds(10)}, "lease", into(o.lease))
      .add_enum("log.format", "logfmt", {"logfmt", "json"}, "log lines", into(o.format))
      .add_list("meta.peers", "", {.items_max = 3}, "addresses", into(o.peers));
  return schema;
}

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Config::create(schema_for(options_));
    ASSERT_TRUE(made) << made.error().to_string();
    config_ = std::make_unique<Config>(*std::move(made));
  }
  // The message of the refusal, which must leave everything as it was.
  std::string refused(std::string_view yaml) {
    const std::string before = config_->dump();
    const auto result = config_->load_yaml(yaml, "a.yaml");
    if (result) return "accepted";
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(config_->dump(), before);
    EXPECT_LT(result.error().message().size(), 1000U);
    return result.error().message();
  }

  Options options_;
  std::unique_ptr<Config> config_;
};

TEST_F(ConfigTest, DefaultsApply) {
  EXPECT_EQ(options_.name, "n1");
  EXPECT_TRUE(options_.verify);
  EXPECT_EQ(options_.port, 7411);
  EXPECT_DOUBLE_EQ(options_.high_water, 0.9);
  EXPECT_EQ(options_.capacity, 4ULL << 30);
  EXPECT_EQ(options_.lease, milliseconds(5000));
  EXPECT_EQ(options_.format, "logfmt");
  EXPECT_TRUE(options_.peers.empty());
}

TEST_F(ConfigTest, YamlThenFlags) {
  const auto loaded = config_->load_yaml(R"(
# a comment
node:
  name: "box 7"
  verify: no
  port: 7500
hot: {capacity: 512 MiB}
hot.high_water: 0.5
meta:
  lease: 250ms
  peers:
    - tcp:a:1
    - tcp:b:2
log:
)",
                                         "a.yaml");
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(options_.name, "box 7");
  EXPECT_FALSE(options_.verify);
  EXPECT_EQ(options_.port, 7500);
  EXPECT_EQ(options_.capacity, 512ULL << 20);
  EXPECT_DOUBLE_EQ(options_.high_water, 0.5);
  EXPECT_EQ(options_.lease, milliseconds(250));
  EXPECT_THAT(options_.peers, ::testing::ElementsAre("tcp:a:1", "tcp:b:2"));
  ASSERT_TRUE(config_->set("hot.capacity", "2MiB", "--hot.capacity"));
  ASSERT_TRUE(config_->set("meta.peers", "x,y,z", ""));
  EXPECT_EQ(options_.capacity, 2ULL << 20);
  EXPECT_THAT(options_.peers, ::testing::ElementsAre("x", "y", "z"));
  EXPECT_EQ(config_->dump(),
            "hot:\n"
            "  capacity: 2MiB  # --hot.capacity\n"
            "  high_water: 0.5  # a.yaml:8\n"
            "log:\n"
            "  format: logfmt  # default\n"
            "meta:\n"
            "  lease: 250ms  # a.yaml:10\n"
            "  peers: [\"x\", \"y\", \"z\"]  # --meta.peers\n"
            "node:\n"
            "  name: \"box 7\"  # a.yaml:4\n"
            "  port: 7500  # a.yaml:6\n"
            "  verify: false  # a.yaml:5\n");
}

TEST_F(ConfigTest, DumpLoadsBack) {
  ASSERT_TRUE(config_->set("node.name", "a: \"b\\ #c", ""));
  ASSERT_TRUE(config_->set("hot.high_water", "33.3%", ""));
  ASSERT_TRUE(config_->set("meta.lease", "10500us", ""));
  Options other;
  auto again = Config::create(schema_for(other));
  ASSERT_TRUE(again);
  const auto loaded = again->load_yaml(config_->dump(), "dump");
  ASSERT_TRUE(loaded) << loaded.error().to_string() << config_->dump();
  EXPECT_EQ(other.name, "a: \"b\\ #c");
  EXPECT_EQ(other.high_water, options_.high_water);
  EXPECT_EQ(other.lease, milliseconds(10));  // rounded to the field's unit, in both
  EXPECT_EQ(other.lease, options_.lease);
}

TEST(ConfigDumpTest, SmallRatiosLoadBack) {
  double ratio = 0;
  ConfigSchema schema;
  schema.add_ratio("r", "0.001%", {.max = 0.07}, "r", into(ratio));
  auto config = Config::create(std::move(schema));
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->keys()[0]->allowed, "a ratio from 0% to 7%");
  const double before = ratio;
  ASSERT_TRUE(config->load_yaml(config->dump(), "dump")) << config->dump();
  EXPECT_EQ(ratio, before);
}

TEST_F(ConfigTest, ErrorsNamePlaceKeyFoundAndAllowed) {
  EXPECT_EQ(refused("hot:\n  capacity: 9Q\n"),
            "a.yaml:2: hot.capacity: found '9Q' (size '9Q' has an unknown unit; write for example "
            "512MiB or 4GiB); allowed is a size from 1MiB to 1TiB, like 512MiB");
  EXPECT_EQ(refused("hot:\n  capacity: 1KiB\n"),
            "a.yaml:2: hot.capacity: found '1KiB' (out of bounds); allowed is a size from 1MiB to "
            "1TiB, like 512MiB");
  EXPECT_EQ(refused("hot:\n  capacty: 1GiB\n"),
            "a.yaml:2: unknown key 'hot.capacty'; did you mean 'hot.capacity'?");
  EXPECT_EQ(refused("zzzzzzzzzzzzzz: 1\n"), "a.yaml:1: unknown key 'zzzzzzzzzzzzzz'");
  EXPECT_EQ(refused("hot: 5\n"),
            "a.yaml:1: unknown key 'hot'; it is a section, its keys are inside it");
  EXPECT_EQ(refused("node:\n  port: 1\n  port: 2\n"),
            "a.yaml:3: key 'node.port' is given twice, first in line 2");
  EXPECT_EQ(refused("node: {port: 1}\nnode.port: 2\n"),
            "a.yaml:2: key 'node.port' is given twice, first in line 1");
  EXPECT_THAT(refused("node: {port: 1}\nnode: {name: x}\n"), HasSubstr("'node' is given twice"));
  EXPECT_THAT(refused("node: {port: 1}\nhot: {capacity: 1}\n"), HasSubstr("a.yaml:2:"));
  const auto flag = config_->set("node.port", "0", "--node.port");
  ASSERT_FALSE(flag);
  EXPECT_EQ(flag.error().message(),
            "--node.port='0': out of bounds; allowed is a number from 1 to 65535");
  EXPECT_THAT(config_->set("node.prt", "1", "").error().message(),
              HasSubstr("--node.prt: unknown key 'node.prt'; did you mean 'node.port'?"));
}

TEST_F(ConfigTest, WrongKindsAndValues) {
  for (const char* yaml : {"node.port: -1",
                           "node.port: 70000",
                           "node.port: 1.5",
                           "node.port: ",
                           "node.port: null",
                           "node.port: [1]",
                           "node.port: {a: 1}",
                           "node.verify: maybe",
                           "node.name: ''",
                           "node.name: \"a\\nb\"",
                           "node.name: aaaaaaaaaaaaaaaaaaaaaaaaaa",
                           "hot.high_water: 5%",
                           "hot.high_water: 90",
                           "meta.lease: 5",
                           "meta.lease: 1ms",
                           "meta.lease: -5s",
                           "log.format: xml",
                           "log.format: JSON",
                           "meta.peers: a",
                           "meta.peers: [a,b,c,d]",
                           "meta.peers: ['a,b']",
                           "meta.peers: [[a]]",
                           "meta.peers: [{a: b}]",
                           "meta.peers: [~]",
                           "meta.peers: ['']",
                           "meta: [lease]",
                           "node"}) {
    EXPECT_THAT(refused(yaml), HasSubstr("a.yaml:1: ")) << yaml;
  }
  EXPECT_FALSE(config_->set("meta.peers", "a,,b", ""));
  EXPECT_FALSE(config_->set("meta.peers", "a,", ""));
  EXPECT_FALSE(config_->set("node.port", "", ""));
  EXPECT_TRUE(config_->set("meta.peers", "", ""));
  EXPECT_TRUE(config_->load_yaml("", "empty"));
  EXPECT_TRUE(config_->load_yaml("---\n", "empty"));
  EXPECT_TRUE(config_->load_yaml("{}", "empty"));
}

TEST_F(ConfigTest, HostileYamlIsRefused) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const char last = static_cast<char>(c - 1);
    bomb += std::string(1, c) + ": &" + c + " [*" + last + ",*" + last + ",*" + last + "]\n";
  }
  EXPECT_THAT(refused(bomb), HasSubstr("a.yaml:1: an anchor"));
  EXPECT_THAT(refused("node.port: *p\n"), Not(HasSubstr("accepted")));
  EXPECT_THAT(refused("x: !!python/object:os.system [a]\n"), HasSubstr("a tag"));
  EXPECT_THAT(refused("node.name: !!binary aGk=\n"), HasSubstr("a tag"));
  EXPECT_THAT(refused("node.port: 1\n---\nnode.port: 2\n"), HasSubstr("a second YAML document"));
  EXPECT_THAT(refused("? [a, b]\n: c\n"), HasSubstr("a list as a key"));
  EXPECT_THAT(refused("? {a: b}\n: c\n"), HasSubstr("a mapping as a key"));
  EXPECT_THAT(refused("- a\n- b\n"), HasSubstr("not a mapping"));
  EXPECT_THAT(refused("node: {port: 1\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(refused("node:\n\tport: 1\n"), HasSubstr("a.yaml:2: "));
  EXPECT_THAT(refused(std::string("node.port: 1\0", 13)), HasSubstr("NUL"));
  EXPECT_THAT(refused(std::string(Config::kFileBytesMax + 1, ' ')), HasSubstr("larger than 1MiB"));
  EXPECT_THAT(refused(std::string(100000, 'k') + ": 1"), Not(HasSubstr("accepted")));
  EXPECT_THAT(refused("\"a\\n\\x1bb\": 1"), HasSubstr("'a\\x0a\\x1bb'"));
  std::string nested;
  std::string indent;
  for (int i = 0; i < 40; ++i) {
    nested += indent + "a:\n";
    indent += ' ';
  }
  EXPECT_THAT(refused(nested), HasSubstr("nesting deeper than 16 levels"));
  for (const char* open : {"[", "{", "{a: ", "- ", "? "}) {
    std::string deep;
    while (deep.size() < 200000) deep += open;
    EXPECT_THAT(refused(deep), Not(HasSubstr("accepted"))) << open;
  }
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(refused(many), HasSubstr("more than 8192 keys"));
}

TEST_F(ConfigTest, RandomTextNeverThrows) {
  std::mt19937_64 random(11);
  const std::string seed = config_->dump();
  constexpr std::string_view kSpice = "{}[]:,#&*!|>'\"%@`-? \n\t\xff\x80~<=";
  for (int i = 0; i < 3000; ++i) {
    std::string text = seed;
    const std::size_t edits = 1 + random() % 8;
    for (std::size_t e = 0; e < edits; ++e) {
      text[random() % text.size()] = kSpice[random() % kSpice.size()];
    }
    const auto result = config_->load_yaml(text, "fuzz");
    if (!result) {
      ASSERT_EQ(result.error().code(), Code::kInvalidArgument);
    }
  }
}

TEST_F(ConfigTest, Files) {
  EXPECT_THAT(config_->load_file("/nonexistent/larder.yaml").error().message(),
              HasSubstr("'/nonexistent/larder.yaml': No such file or directory"));
  EXPECT_FALSE(config_->load_file("/"));
  EXPECT_FALSE(config_->load_file("/dev/zero"));
  const std::string path = ::testing::TempDir() + "larder_config_test.yaml";
  std::ofstream(path) << "node.port: 99\n";
  const auto loaded = config_->load_file(path);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(options_.port, 99);
  EXPECT_THAT(config_->dump(), HasSubstr("port: 99  # " + path + ":1"));
}

TEST_F(ConfigTest, KeysDescribeThemselves) {
  const auto keys = config_->keys();
  ASSERT_EQ(keys.size(), 8U);
  EXPECT_EQ(keys[0]->name, "hot.capacity");
  EXPECT_EQ(keys[0]->default_text, "4GiB");
  EXPECT_EQ(keys[0]->help, "DRAM");
  EXPECT_EQ(keys[0]->allowed, "a size from 1MiB to 1TiB, like 512MiB");
  EXPECT_EQ(keys[2]->allowed, "one of logfmt, json");
  EXPECT_EQ(keys[3]->allowed, "a duration of at least 10ms, like 250us or 5s");
}

TEST(ConfigSchemaTest, MistakesInTheTableAreFound) {
  const auto made = [](auto fill) {
    ConfigSchema schema;
    fill(schema);
    const auto config = Config::create(std::move(schema));
    return config ? Code::kOk : config.error().code();
  };
  const auto ignore = [](const auto&) {};
  EXPECT_EQ(made([&](ConfigSchema& s) { s.add_bool("a", true, "a", ignore); }), Code::kOk);
  EXPECT_EQ(made([&](ConfigSchema& s) { s.add_bool("a..b", true, "a", ignore); }), Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) { s.add_bool("A", true, "a", ignore); }), Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) { s.add_bool("a", true, "a", nullptr); }), Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) { s.add_size("a", "1KiB", {.min = 2048}, "a", ignore); }),
            Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) {
              s.add_bool("a", true, "a", ignore).add_bool("a", true, "a", ignore);
            }),
            Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) {
              s.add_bool("a", true, "a", ignore).add_bool("a.b", true, "a", ignore);
            }),
            Code::kInternal);
  EXPECT_EQ(made([&](ConfigSchema& s) {
              s.add_bool("a", true, "a", [](bool) { throw std::runtime_error("x"); });
            }),
            Code::kInternal);
}

}  // namespace
}  // namespace larder::env
