// SPDX-License-Identifier: Apache-2.0
// yaml-cpp stays inside this file. Its events are used as they come, without a tree, so that
// hostile text cannot make it build one.
#include "transfer/policy.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>

#include "base/units.h"

namespace larder::transfer {
namespace {

constexpr std::size_t kFieldsMax = 32;  // of one rule; more than there are keys
constexpr std::size_t kItemsMax = 64;   // of one list; more than there are transports
constexpr std::string_view kNameRule = "1 to 64 letters, digits, '_', '-' or '.'";

// ---------------------------------------------------------------------------------- the events

// One `key: value` of a rule, not yet understood.
struct Field {
  enum class Kind { kScalar, kList, kNull };

  std::string key;
  int line = 0;  // from 1
  Kind kind = Kind::kNull;
  std::vector<std::string> items = {};  // one for a scalar
};

struct RawRule {
  int line = 0;
  std::vector<Field> fields;
};

struct Refusal {
  int line;
  std::string message;
};

// Sorts the events into rules and their fields. Keeps the first thing that it has to refuse and
// ignores every event after it; the text is bounded, so letting the parser run on is cheap.
class Collector final : public YAML::EventHandler {
 public:
  const std::optional<Refusal>& refusal() const { return refusal_; }
  const std::vector<RawRule>& rules() const { return rules_; }
  bool found() const { return found_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second YAML document; one policy is one document");
  }
  void OnDocumentEnd() override {}

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*name); write the value out, or \"*\" in quotes");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!accept(mark, "", anchor) || level_ == Level::kOutside) return;  // an empty document
    if (level_ == Level::kRule && has_key_) return put(Field::Kind::kNull);
    refuse(mark, expected());
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!accept(mark, tag, anchor)) return;
    if (level_ == Level::kTop && !has_key_) return take_top_key(mark, value);
    if (level_ == Level::kRule && !has_key_) return take_key(mark, value);
    if (level_ == Level::kRule) return put(Field::Kind::kScalar, {value});
    if (level_ == Level::kList) return take_item(mark, value);
    refuse(mark, expected());
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (!accept(mark, tag, anchor)) return;
    if (level_ == Level::kTop && has_key_) {
      level_ = Level::kRules;
    } else if (level_ == Level::kRule && has_key_) {
      put(Field::Kind::kList);
      level_ = Level::kList;
    } else {
      refuse(mark, expected());
    }
  }
  void OnSequenceEnd() override {
    if (!refusal_) level_ = level_ == Level::kList ? Level::kRule : Level::kEnd;
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (!accept(mark, tag, anchor)) return;
    if (level_ == Level::kOutside) {
      level_ = Level::kTop;
    } else if (level_ == Level::kRules && rules_.size() < Policy::kRulesMax) {
      rules_.push_back({mark.line + 1, {}});
      level_ = Level::kRule;
      has_key_ = false;
    } else if (level_ == Level::kRules) {
      refuse(mark, fmt::format("more than {} rules", Policy::kRulesMax));
    } else {
      refuse(mark, expected());
    }
  }
  void OnMapEnd() override {
    if (!refusal_ && level_ == Level::kRule) level_ = Level::kRules;
  }

 private:
  // kEnd: past the list of rules, where only the end of the outermost mapping may come.
  enum class Level { kOutside, kTop, kRules, kRule, kList, kEnd };

  void refuse(const YAML::Mark& mark, std::string_view what) {
    if (refusal_) return;
    const bool inside = level_ == Level::kRule || level_ == Level::kList;
    const std::string rule = inside ? fmt::format("rule {}: ", rules_.size()) : "";
    refusal_ = Refusal{mark.line + 1, rule + std::string(what)};
  }

  std::string expected() const {
    const std::string key = rules_.empty() || rules_.back().fields.empty()
                                ? std::string()
                                : base::quoted(rules_.back().fields.back().key);
    switch (level_) {
      case Level::kOutside:
        return "not a mapping; allowed is the key 'policy' with a list of rules";
      case Level::kTop:
        return has_key_ ? "'policy' is no list; allowed is a list of rules"
                        : "a key that is no text; allowed is policy";
      case Level::kRules:
        return fmt::format("item {} of 'policy' is no mapping; allowed is a mapping of keys",
                           rules_.size() + 1);
      case Level::kRule:
        return has_key_ ? key + " holds a mapping; allowed is a value or a list"
                        : "a key that is no text";
      case Level::kList:
        return key + " holds something that is no text; allowed is a list of names";
      case Level::kEnd:
        break;
    }
    return "something after the rules; allowed is the one key 'policy'";
  }

  // False when the event is to be ignored.
  bool accept(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const bool ours = tag.empty() || tag == "?" || tag == "!";  // "!" is a quoted scalar
    if (anchor != YAML::NullAnchor) {
      refuse(mark, "an anchor (&name); anchors are not supported");
    } else if (!ours) {
      refuse(mark, "a tag " + base::quoted(tag) + "; tags are not supported");
    }
    return !refusal_;
  }

  void take_top_key(const YAML::Mark& mark, const std::string& value) {
    if (value != "policy") {
      return refuse(mark, "unknown key " + base::quoted(value) + "; allowed is policy");
    }
    found_ = true;
    has_key_ = true;
  }

  void take_key(const YAML::Mark& mark, const std::string& value) {
    std::vector<Field>& fields = rules_.back().fields;
    if (fields.size() == kFieldsMax) return refuse(mark, "has too many keys");
    fields.push_back({.key = value, .line = mark.line + 1});
    has_key_ = true;
  }

  void take_item(const YAML::Mark& mark, const std::string& value) {
    std::vector<std::string>& items = rules_.back().fields.back().items;
    if (items.size() == kItemsMax) return refuse(mark, "has a list of too many items");
    items.push_back(value);
  }

  void put(Field::Kind kind, std::vector<std::string> items = {}) {
    Field& field = rules_.back().fields.back();
    field.kind = kind;
    field.items = std::move(items);
    has_key_ = false;
  }

  int documents_ = 0;
  bool found_ = false;
  bool has_key_ = false;
  Level level_ = Level::kOutside;
  std::vector<RawRule> rules_;
  std::optional<Refusal> refusal_;
};

// ------------------------------------------------------------------------ the meaning of fields

// Assigns what was parsed, or hands its error on.
template <class T, class Target>
Result<void> assign(Target& target, Result<T> value) {
  if (!value) return fail(std::move(value).error());
  target = *std::move(value);
  return {};
}

Result<void> check_name(std::string_view name) {
  const bool clean = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-' || c == '.';
  });
  if (clean && !name.empty() && name.size() <= Policy::kNameBytesMax) return {};
  return fail(Code::kInvalidArgument,
              fmt::format("{} is no rule name; allowed are {}", base::quoted(name), kNameRule));
}

// "any" because a bare * is an alias in YAML.
Result<void> set_memory(std::optional<MemoryType>& memory, const std::string& text) {
  if (text == "any" || text == "*") return {};
  auto type = parse_memory_type(text);
  if (!type) return fail(Code::kInvalidArgument, type.error().message() + ", any");
  memory = *type;
  return {};
}

Result<void> set_transports(Rule& rule, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    LARDER_ASSIGN(const TransportType type, parse_transport(name));
    rule.transports.push_back(type);
  }
  return {};
}

struct Key {
  std::string_view name;
  std::string_view allowed;
  Field::Kind kind;
  Result<void> (*set)(Rule&, const Field&);
};

constexpr auto kScalar = Field::Kind::kScalar;

// house: table
constexpr std::array kKeys = {
    Key{"name", kNameRule, kScalar,
        [](Rule& rule, const Field& field) -> Result<void> {
          LARDER_TRY(check_name(field.items[0]));
          rule.name = field.items[0];
          return {};
        }},
    Key{"segment_type", "memory or file", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.segment_type, parse_segment_type(field.items[0]));
        }},
    Key{"same_machine", "true or false", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.same_machine, base::parse_bool(field.items[0]));
        }},
    Key{"local_memory", "cpu, cuda, npu or any", kScalar,
        [](Rule& rule, const Field& field) {
          return set_memory(rule.local_memory, field.items[0]);
        }},
    Key{"remote_memory", "cpu, cuda, npu or any", kScalar,
        [](Rule& rule, const Field& field) {
          return set_memory(rule.remote_memory, field.items[0]);
        }},
    Key{"min_size", "a size like 4096 or 64KiB", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.min_size, base::parse_size(field.items[0]));
        }},
    Key{"max_size", "a size like 4096 or 64KiB", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.max_size, base::parse_size(field.items[0]));
        }},
    Key{"intent", "the name of an intent", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.intent, parse_intent(field.items[0]));
        }},
    Key{"class", "high or low", kScalar,
        [](Rule& rule, const Field& field) {
          return assign(rule.traffic_class, parse_class(field.items[0]));
        }},
    Key{"transports", "a list of transports, the preferred one first", Field::Kind::kList,
        [](Rule& rule, const Field& field) { return set_transports(rule, field.items); }},
};

std::string key_names() {
  std::string out;
  for (const Key& key : kKeys) out.append(out.empty() ? "" : ", ").append(key.name);
  return out;
}

const Field* find_field(const RawRule& raw, std::string_view key) {
  const auto at = std::find_if(raw.fields.begin(), raw.fields.end(),
                               [key](const Field& field) { return field.key == key; });
  return at == raw.fields.end() ? nullptr : &*at;
}

std::string rule_label(std::string_view name, std::size_t number) {
  return name.empty() ? std::to_string(number) : fmt::format("'{}'", name);
}

std::string_view kind_text(Field::Kind kind) {
  if (kind == Field::Kind::kNull) return "has no value";
  return kind == Field::Kind::kList ? "is a list" : "is no list";
}

// What one rule says, whoever wrote it; neither place nor rule in the message.
Result<void> check_rule(const Rule& rule) {
  const auto bad = [](std::string message) {
    return fail(Code::kInvalidArgument, std::move(message));
  };
  if (!rule.name.empty()) LARDER_TRY(check_name(rule.name));
  LARDER_TRY(parse_segment_type(segment_type_name(rule.segment_type)));
  if (rule.local_memory) LARDER_TRY(parse_memory_type(memory_type_name(*rule.local_memory)));
  if (rule.remote_memory) LARDER_TRY(parse_memory_type(memory_type_name(*rule.remote_memory)));
  if (rule.traffic_class) LARDER_TRY(parse_class(class_name(*rule.traffic_class)));
  if (rule.intent && static_cast<std::size_t>(*rule.intent) >= kIntentCount) {
    return bad("intent: the number is none of an intent");
  }
  if (rule.remote_memory && rule.segment_type == SegmentType::kFile) {
    return bad("remote_memory: a file has none; allowed only with segment_type memory");
  }
  if (rule.min_size > rule.max_size) {
    return bad(fmt::format("min_size {} is above max_size {}; allowed is at most that",
                           base::format_size(rule.min_size), base::format_size(rule.max_size)));
  }
  if (rule.transports.empty() || rule.transports.size() > Policy::kTransportsMax) {
    return bad(fmt::format("transports: {} of them; allowed are 1 to {}", rule.transports.size(),
                           Policy::kTransportsMax));
  }
  for (auto at = rule.transports.begin(); at != rule.transports.end(); ++at) {
    const std::string_view name = transport_name(*at);
    LARDER_TRY(parse_transport(name));
    if (is_only_booked(*at)) {
      return bad(
          fmt::format("transports: '{}' is a name of the books only; the engine has no such "
                      "transport, so no rule can choose it",
                      name));
    }
    if (std::find(rule.transports.begin(), at, *at) == at) continue;
    return bad(fmt::format("transports: '{}' is given twice; allowed is once", name));
  }
  return {};
}

// Turns fields into rules. Messages of `at()` are "source:line: rule 'x': ...".
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Result<std::vector<Rule>> read(const std::vector<RawRule>& raws) {
    std::vector<Rule> rules;
    std::map<std::string_view, int> lines;  // of the names
    for (std::size_t i = 0; i < raws.size(); ++i) {
      const RawRule& raw = raws[i];
      const Field* const name = find_field(raw, "name");
      const bool named = name != nullptr && name->kind == kScalar && check_name(name->items[0]);
      label_ = rule_label(named ? std::string_view(name->items[0]) : std::string_view(), i + 1);
      LARDER_ASSIGN(Rule rule, read_rule(raw));
      rules.push_back(std::move(rule));
      if (!named) continue;
      const auto [first, added] = lines.emplace(name->items[0], name->line);
      if (added) continue;
      return at(name->line, fmt::format("name: the rule in line {} has it already; allowed is a "
                                        "name of its own",
                                        first->second));
    }
    return rules;
  }

 private:
  tl::unexpected<Error> at(int line, std::string_view what) const {
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: rule {}: {}", source_, line, label_, what));
  }

  Result<Rule> read_rule(const RawRule& raw) const {
    Rule rule;
    for (const Field& field : raw.fields) {
      const Field* const first = find_field(raw, field.key);
      if (first != &field) {
        return at(field.line, fmt::format("key {} is given twice, first in line {}; allowed is "
                                          "once",
                                          base::quoted(field.key), first->line));
      }
      LARDER_TRY(read_field(field, rule));
    }
    for (const std::string_view key : {"segment_type", "transports"}) {
      if (find_field(raw, key) != nullptr) continue;
      return at(raw.line, fmt::format("has no {}; it is required", key));
    }
    if (const auto checked = check_rule(rule); !checked) {
      return at(raw.line, checked.error().message());
    }
    return rule;
  }

  Result<void> read_field(const Field& field, Rule& rule) const {
    const auto* const key = std::find_if(
        kKeys.begin(), kKeys.end(), [&field](const Key& known) { return known.name == field.key; });
    if (key == kKeys.end()) {
      return at(field.line, fmt::format("unknown key {}; allowed are {}", base::quoted(field.key),
                                        key_names()));
    }
    if (field.kind != key->kind) {
      return at(field.line, fmt::format("{} {}; allowed is {}", key->name, kind_text(field.kind),
                                        key->allowed));
    }
    if (const auto set = key->set(rule, field); !set) {
      return at(field.line, fmt::format("{}: {}", key->name, set.error().message()));
    }
    return {};
  }

  std::string_view source_;
  std::string label_;
};

// Messages end up in logs and on terminals.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, 256));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out;
}

tl::unexpected<Error> refused(std::string_view source, int line, std::string_view what) {
  return fail(Code::kInvalidArgument, fmt::format("{}:{}: {}", source, std::max(line, 1), what));
}

Result<Collector> collect(std::string_view text, std::string_view source) {
  Collector collector;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (!collector.refusal() && parser.HandleNextDocument(collector)) {
    }
  } catch (const YAML::Exception& e) {
    if (!collector.refusal()) {
      return refused(source, e.mark.line + 1, "not valid YAML or JSON: " + printable(e.msg));
    }
  } catch (const std::exception& e) {
    return refused(source, 1, "cannot be parsed: " + printable(e.what()));
  }
  if (collector.refusal()) {
    return refused(source, collector.refusal()->line, collector.refusal()->message);
  }
  return collector;
}

}  // namespace

Result<Policy> Policy::parse(std::string_view text, std::string_view source) {
  const std::string name = printable(source);
  if (text.size() > kTextBytesMax) {
    return refused(
        name, 1,
        fmt::format("larger than {}; allowed is at most that", base::format_size(kTextBytesMax)));
  }
  if (text.find('\0') != std::string_view::npos) {
    return refused(name, 1, "holds NUL bytes; allowed is YAML or JSON text");
  }
  LARDER_ASSIGN(const Collector collector, collect(text, name));
  if (!collector.found()) return refused(name, 1, "has no key 'policy'; it is required");
  LARDER_ASSIGN(std::vector<Rule> rules, Reader(name).read(collector.rules()));
  if (rules.empty()) return refused(name, 1, "policy: no rules; allowed are 1 to 256");
  return Policy(std::move(rules));
}

Result<Policy> Policy::create(std::vector<Rule> rules) {
  if (rules.empty() || rules.size() > kRulesMax) {
    return fail(Code::kInvalidArgument,
                fmt::format("policy: {} rules; allowed are 1 to {}", rules.size(), kRulesMax));
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string label = "rule " + rule_label(printable(rules[i].name), i + 1) + ": ";
    if (const auto checked = check_rule(rules[i]); !checked) {
      return fail(Code::kInvalidArgument, label + checked.error().message());
    }
    const auto end = rules.begin() + static_cast<std::ptrdiff_t>(i);
    const bool twice = std::any_of(rules.begin(), end, [&](const Rule& earlier) {
      return !rules[i].name.empty() && earlier.name == rules[i].name;
    });
    if (twice) return fail(Code::kInvalidArgument, label + "name: an earlier rule has it already");
  }
  return Policy(std::move(rules));
}

Policy Policy::defaults() {
  using enum TransportType;
  const auto file = [](std::string name, MemoryType memory, std::vector<TransportType> transports) {
    Rule rule;
    rule.name = std::move(name);
    rule.segment_type = SegmentType::kFile;
    rule.local_memory = memory;
    rule.transports = std::move(transports);
    return rule;
  };
  Rule near;
  near.name = "same_machine_memory";
  near.same_machine = true;
  near.transports = {kMemcpy, kShm, kTcp};
  Rule far;
  far.name = "remote_memory";
  far.transports = {kTcp};
  return Policy({file("npu_file", MemoryType::kNpu, {kNds, kIoUring}),
                 file("cuda_file", MemoryType::kCuda, {kGds, kIoUring}),
                 file("cpu_file", MemoryType::kCpu, {kIoUring}), std::move(near), std::move(far)});
}

std::string Policy::label(std::size_t rule) const {
  return rule_label(rules_[rule].name, rule + 1);
}

std::string Policy::to_text() const {
  std::string out = "policy:\n";
  for (const Rule& rule : rules_) {
    std::string_view indent = "  - ";
    const auto line = [&out, &indent](std::string_view key, std::string_view value) {
      out += fmt::format("{}{}: {}\n", indent, key, value);
      indent = "    ";
    };
    if (!rule.name.empty()) line("name", '"' + rule.name + '"');  // a name may look like a number
    line("segment_type", segment_type_name(rule.segment_type));
    if (rule.same_machine) line("same_machine", *rule.same_machine ? "true" : "false");
    if (rule.local_memory) line("local_memory", memory_type_name(*rule.local_memory));
    if (rule.remote_memory) line("remote_memory", memory_type_name(*rule.remote_memory));
    if (rule.min_size != Rule().min_size) line("min_size", base::format_size(rule.min_size));
    if (rule.max_size != Rule().max_size) line("max_size", base::format_size(rule.max_size));
    if (rule.intent) line("intent", intent_name(*rule.intent));
    if (rule.traffic_class) line("class", class_name(*rule.traffic_class));
    std::string list;
    for (const TransportType type : rule.transports) {
      list.append(list.empty() ? "" : ", ").append(transport_name(type));
    }
    line("transports", '[' + list + ']');
  }
  return out;
}

}  // namespace larder::transfer
