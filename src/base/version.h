// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace larder {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace larder
