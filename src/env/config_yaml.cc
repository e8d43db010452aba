// SPDX-License-Identifier: Apache-2.0
// yaml-cpp stays inside this file.
#include "env/config_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <sstream>

#include "base/units.h"

namespace larder::env {
namespace {

struct Refusal {
  std::string message;
  int line;
};

// Keeps the first thing it has to refuse and ignores every event after it; the text is bounded, so
// letting the parser run on to its end is cheap.
class Flattener final : public YAML::EventHandler {
 public:
  explicit Flattener(std::size_t depth_max) : depth_max_(depth_max) {}

  const std::optional<Refusal>& refusal() const { return refusal_; }
  std::vector<YamlLeaf> take() { return std::move(leaves_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second YAML document; keep one per file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!accept(mark, "", anchor) || frames_.empty()) return;  // no frame: an empty document
    if (!frames_.back().map) return refuse(mark, "an empty item in a list");
    if (!frames_.back().has_key) return refuse(mark, "an empty key");
    leaf(mark, YamlLeaf::Kind::kNull, {});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias (*name); write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!accept(mark, tag, anchor)) return;
    if (frames_.empty()) return refuse(mark, kNoMapping);
    Frame& frame = frames_.back();
    if (!frame.map) {
      item(mark, value);
    } else if (!frame.has_key) {
      take_key(mark, value);
    } else {
      leaf(mark, YamlLeaf::Kind::kScalar, {value});
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (!accept(mark, tag, anchor)) return;
    if (frames_.empty()) return refuse(mark, kNoMapping);
    if (!frames_.back().map) return refuse(mark, "a list within a list");
    if (!frames_.back().has_key) return refuse(mark, "a list as a key");
    leaf(mark, YamlLeaf::Kind::kSequence, {});
    push(mark, {.map = false});
  }
  void OnSequenceEnd() override { pop(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (!accept(mark, tag, anchor)) return;
    std::string prefix;
    if (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (!frame.map) return refuse(mark, "a mapping within a list");
      if (!frame.has_key) return refuse(mark, "a mapping as a key");
      prefix = frame.key + '.';
      frame.has_key = false;
    }
    push(mark, {.map = true, .prefix = std::move(prefix)});
  }
  void OnMapEnd() override { pop(); }

 private:
  static constexpr const char* kNoMapping = "the file is not a mapping of keys to values";

  struct Frame {
    bool map = true;
    bool has_key = false;
    int key_line = 0;
    std::string prefix = {};
    std::string key = {};                  // with the prefix
    std::map<std::string, int> seen = {};  // keys of this mapping, and their lines
  };

  void refuse(const YAML::Mark& mark, std::string message) {
    if (!refusal_) refusal_ = Refusal{std::move(message), mark.line + 1};
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

  void push(const YAML::Mark& mark, Frame frame) {
    if (frames_.size() >= depth_max_) {
      return refuse(mark, fmt::format("nesting deeper than {} levels", depth_max_));
    }
    frames_.push_back(std::move(frame));
  }
  void pop() {
    if (!refusal_) frames_.pop_back();
  }

  void take_key(const YAML::Mark& mark, const std::string& value) {
    Frame& frame = frames_.back();
    if (value.empty()) return refuse(mark, "an empty key");
    frame.key = frame.prefix + value;
    if (frame.key.size() > kYamlNameBytesMax) {
      return refuse(mark, "the key " + base::quoted(frame.key) + " is too long");
    }
    frame.has_key = true;
    frame.key_line = mark.line + 1;
    const auto [first, added] = frame.seen.emplace(value, frame.key_line);
    if (added) return;
    refuse(mark, fmt::format("key {} is given twice, first in line {}", base::quoted(frame.key),
                             first->second));
  }

  void item(const YAML::Mark& mark, const std::string& value) {
    std::vector<std::string>& items = leaves_.back().items;
    if (items.size() == kYamlItemsMax) return refuse(mark, "a list with too many items");
    items.push_back(value);
  }

  void leaf(const YAML::Mark& mark, YamlLeaf::Kind kind, std::vector<std::string> items) {
    Frame& frame = frames_.back();
    if (leaves_.size() == kYamlLeavesMax) {
      return refuse(mark, fmt::format("more than {} keys", kYamlLeavesMax));
    }
    frame.has_key = false;
    leaves_.push_back({frame.key, kind, std::move(items), frame.key_line});
  }

  const std::size_t depth_max_;
  int documents_ = 0;
  std::vector<Frame> frames_;
  std::vector<YamlLeaf> leaves_;
  std::optional<Refusal> refusal_;
};

tl::unexpected<Error> refused(std::string_view filename, int line, std::string_view what) {
  return fail(Code::kInvalidArgument, fmt::format("{}:{}: {}", filename, line, what));
}

}  // namespace

Result<std::vector<YamlLeaf>> flatten_yaml(std::string_view text, std::string_view filename,
                                           std::size_t depth_max) {
  Flattener flattener(depth_max);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (!flattener.refusal() && parser.HandleNextDocument(flattener)) {
    }
  } catch (const YAML::Exception& e) {
    if (!flattener.refusal()) {
      return refused(filename, e.mark.line + 1, "not valid YAML: " + e.msg);
    }
  } catch (const std::exception& e) {
    return refused(filename, 1, std::string("cannot be parsed: ") + e.what());
  }
  if (flattener.refusal()) {
    return refused(filename, flattener.refusal()->line, flattener.refusal()->message);
  }
  return flattener.take();
}

}  // namespace larder::env
