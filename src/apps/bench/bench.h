// SPDX-License-Identifier: Apache-2.0
// `larder bench`: what this machine can do, and how near the store comes to it.
#pragma once

#include <span>
#include <string>

namespace larder::apps {

// Parses what stands behind the word bench, runs it, returns the exit code. Call it from the main
// thread, before any other thread was started: it forks.
int run_bench(std::span<const std::string> arguments);

}  // namespace larder::apps
