// SPDX-License-Identifier: Apache-2.0
// What the target answers to Identify and Get Log Page. Pure; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "nvmf/pdu/identify.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/target/namespace.h"
#include "nvmf/target/subsystem.h"

namespace larder::nvmf {

inline constexpr std::uint32_t kAsyncEventsMax = 4;  // of one controller at a time

IdentifyController identify_controller(const Subsystem& subsystem, const Controller& controller,
                                       const NamespaceTable& table);
IdentifyNamespace identify_namespace(const Namespace& space);
// Ids above `after`.
std::vector<std::byte> active_namespaces(const NamespaceTable& table, std::uint32_t after);
std::vector<std::byte> namespace_ids(const Namespace& space);

std::vector<std::byte> smart_page(const TargetStats& stats, bool read_only);
std::vector<std::byte> firmware_page();
std::vector<std::byte> effects_page();

template <class T>
std::vector<std::byte> page_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace larder::nvmf
