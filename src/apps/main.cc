// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/cli.h"
#include "apps/exit_codes.h"

int main(int argc, char** argv) {
  // A closed pipe is an error of the write that met it, never the end of a node.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    return larder::apps::run_larder(arguments);
  } catch (const std::bad_alloc&) {
    std::fputs("larder: error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "larder: error: %s (a bug; please report it)\n", e.what());
  }
  return larder::apps::kExitError;
}
