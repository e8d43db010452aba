// SPDX-License-Identifier: Apache-2.0
#include "platform/platform_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/units.h"
#include "platform/copy_route.h"

namespace larder::platform {
namespace {

struct Known {
  std::string_view name;
  MemoryType type;
  bool simulated;
};
constexpr std::array kKnown = {
    Known{"cpu", MemoryType::kCpu, false},
    Known{"cuda", MemoryType::kCuda, false},
    Known{"sim-cuda", MemoryType::kCuda, true},
    Known{"sim-npu", MemoryType::kNpu, true},
};

Result<int> parse_devices(const Known& known, std::string_view digits, std::string_view text) {
  const auto count = base::parse_u64(digits);
  if (known.simulated && is_plain_number(digits) && count && *count >= 1 &&
      *count <= kSimDevicesMax) {
    return static_cast<int>(*count);
  }
  return fail(
      Code::kInvalidArgument,
      fmt::format("platform {}: {}", base::quoted(text),
                  known.simulated ? fmt::format("the number of simulated devices must be "
                                                "1 to {}",
                                                kSimDevicesMax)
                                  : fmt::format("{} takes no number of devices", known.name)));
}

Result<PlatformSpec> parse_platform(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto* known = std::find_if(kKnown.begin(), kKnown.end(),
                                   [&](const Known& k) { return k.name == text.substr(0, colon); });
  if (known == kKnown.end()) {
    return fail(Code::kInvalidArgument,
                fmt::format("platform {} is not one of cpu, cuda, sim-cuda, sim-npu (simulated "
                            "ones with a number of devices, as in 'sim-npu:2')",
                            base::quoted(text)));
  }
  PlatformSpec spec{std::string(known->name), known->type, 1};
  if (colon != std::string_view::npos) {
    LARDER_ASSIGN(spec.devices, parse_devices(*known, text.substr(colon + 1), text));
  }
  return spec;
}

Error two_of(MemoryType type, std::string_view first, std::string_view second) {
  return {Code::kInvalidArgument,
          fmt::format("platforms {} and {} are both for {} memory", base::quoted(first),
                      base::quoted(second), memory_type_name(type))};
}

Result<std::unique_ptr<Platform>> open(const PlatformSpec& spec,
                                       const PlatformSetOptions& options) {
  if (spec.type == MemoryType::kCpu) return std::make_unique<CpuPlatform>(options.cpu);
  if (spec.name == "cuda") return CudaPlatform::create(options.cuda);
  SimOptions sim = options.sim;
  sim.type = spec.type;
  sim.devices = spec.devices;
  return SimPlatform::create(sim);
}

bool has_node(const std::vector<Region>& regions, int node) {
  return std::any_of(regions.begin(), regions.end(),
                     [node](const Region& region) { return region.location.index == node; });
}

bool any_known(const std::vector<Region>& regions) {
  return std::any_of(regions.begin(), regions.end(),
                     [](const Region& region) { return region.location.index >= 0; });
}

}  // namespace

Result<std::vector<PlatformSpec>> parse_platforms(std::span<const std::string> names) {
  std::vector<PlatformSpec> specs;
  for (const std::string& name : names) {
    LARDER_ASSIGN(PlatformSpec spec, parse_platform(name));
    for (const PlatformSpec& other : specs) {
      if (other.type == spec.type) return fail(two_of(spec.type, other.name, name));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

Result<PlatformSet> PlatformSet::create(std::span<const std::string> names,
                                        const PlatformSetOptions& options) {
  LARDER_ASSIGN(const std::vector<PlatformSpec> specs, parse_platforms(names));
  std::vector<std::unique_ptr<Platform>> opened;
  for (const PlatformSpec& spec : specs) {
    auto platform = open(spec, options);
    if (!platform) {
      return fail(platform.error().code(),
                  fmt::format("platform '{}': {}", spec.name, platform.error().message()));
    }
    opened.push_back(std::move(*platform));
  }
  if (std::none_of(specs.begin(), specs.end(),
                   [](const PlatformSpec& s) { return s.type == MemoryType::kCpu; })) {
    opened.push_back(std::make_unique<CpuPlatform>(options.cpu));
  }
  return create(std::move(opened));
}

Result<PlatformSet> PlatformSet::create(std::vector<std::unique_ptr<Platform>> platforms) {
  PlatformSet made;
  for (std::unique_ptr<Platform>& platform : platforms) {
    if (platform == nullptr) return fail(Code::kInvalidArgument, "a platform is null");
    if (const Platform* other = made.of(platform->type()); other != nullptr) {
      return fail(two_of(platform->type(), other->name(), platform->name()));
    }
    made.platforms_.push_back(std::move(platform));
  }
  if (made.of(MemoryType::kCpu) == nullptr) {
    made.platforms_.push_back(std::make_unique<CpuPlatform>());
  }
  // The one that takes everything for its own is asked last.
  std::stable_partition(made.platforms_.begin(), made.platforms_.end(),
                        [](const auto& platform) { return platform->type() != MemoryType::kCpu; });
  return made;
}

Platform* PlatformSet::of(MemoryType type) const noexcept {
  for (const auto& platform : platforms_) {
    if (platform->type() == type) return platform.get();
  }
  return nullptr;
}

Result<Location> PlatformSet::locate(const void* ptr, std::uint64_t bytes) const {
  LARDER_TRY(check_range(ptr, bytes, "range"));
  for (const auto& platform : platforms_) {
    LARDER_ASSIGN(const std::optional<Location> found, platform->locate(ptr, bytes));
    if (found) return *found;
  }
  return fail(Code::kInternal, "no platform knows host memory");
}

Result<std::vector<Region>> PlatformSet::probe(const void* ptr, std::uint64_t bytes) const {
  LARDER_ASSIGN(const Location found, locate(ptr, bytes));
  return of(found.type)->probe(ptr, bytes);
}

Result<Location> PlatformSet::check(const void* ptr, std::uint64_t bytes,
                                    const Location& declared) const {
  LARDER_ASSIGN(const Location found, locate(ptr, bytes));
  if (declared.type == MemoryType::kUnknown) return found;
  bool wrong = declared.type != found.type;
  if (!wrong && declared.index >= 0 && declared.index != found.index) {
    wrong = is_device_memory(found.type);
    if (!wrong) {
      LARDER_ASSIGN(const std::vector<Region> regions, probe(ptr, bytes));
      wrong = any_known(regions) && !has_node(regions, declared.index);
    }
  }
  if (!wrong) return found;
  return fail(Code::kInvalidArgument,
              fmt::format("memory said to be at {} is at {}: correct the location, or give '*'",
                          format_location(declared), format_location(found)));
}

Result<Platform*> PlatformSet::copier_between(const Location& dst, const Location& src) const {
  if (is_device_memory(dst.type) && is_device_memory(src.type) && dst.type != src.type) {
    return fail(Code::kUnsupported, fmt::format("nothing copies from {} to {}: go through host "
                                                "memory",
                                                format_location(src), format_location(dst)));
  }
  for (const MemoryType type : {dst.type, src.type}) {
    if (of(type) == nullptr) {
      return fail(Code::kUnsupported,
                  fmt::format("no platform for {} memory is configured", memory_type_name(type)));
    }
  }
  return of(is_device_memory(dst.type) ? dst.type : src.type);
}

}  // namespace larder::platform
