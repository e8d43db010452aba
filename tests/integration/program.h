// SPDX-License-Identifier: Apache-2.0
// One run of the `larder` program, as a script has it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "node_process.h"

namespace larder::integration {

struct Outcome {
  int exit = -1;  // 128: ended by a signal
  std::string out;
  std::string err;
};

// The words are for the shell; `input` is a file for stdin. Leaves "out" and "err" in `dir`.
inline Outcome run_program(const std::string& words, const Directory& dir,
                           const std::string& input = "/dev/null") {
  const std::string line = "'" + std::string(LARDER_PROGRAM) + "' " + words + " < '" + input +
                           "' > '" + dir.file("out") + "' 2> '" + dir.file("err") + "'";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, dir.read("out"), dir.read("err")};
}

}  // namespace larder::integration
