// SPDX-License-Identifier: Apache-2.0
// The parts of a case's name, "tcp.get.64KiB.b64.c1", that both kinds of cases share.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "larder/status.h"

namespace larder::apps {

// What stands between the dots; they point into `text`.
std::vector<std::string_view> split_name(std::string_view text);
// Its place in `names`, or -1.
int index_of(std::span<const std::string_view> names, std::string_view text) noexcept;
// "b64" with the letter b: 64. kInvalidArgument unless it is 1 to `max`.
Result<std::size_t> parse_count(std::string_view part, char letter, std::size_t max);

}  // namespace larder::apps
