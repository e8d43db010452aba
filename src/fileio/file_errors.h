// SPDX-License-Identifier: Apache-2.0
// What an errno of a file operation means for the caller.
#pragma once

#include <string>
#include <string_view>

#include "larder/status.h"

namespace larder::fileio {

// Never kOk; unknown numbers are kUnavailable.
Code code_of_errno(int error) noexcept;

// "DOING PATH: TEXT; what to do". `doing` is like "reading".
Error file_error(std::string_view doing, const std::string& path, int error);

}  // namespace larder::fileio
