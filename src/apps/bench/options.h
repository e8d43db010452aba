// SPDX-License-Identifier: Apache-2.0
// What `larder bench` was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/probe.h"
#include "apps/bench/raw_peer.h"

namespace larder::apps {

struct BenchOptions {
  std::vector<std::string> cases;  // regular expressions; exact case names need not be listed
  bool all = false;                // the full matrix
  double seconds = 1.0;            // of measuring per case and side
  std::size_t repeat = 5;          // rounds that share the seconds
  Wait wait = Wait::kSpin;
  bool verify = false;
  bool limits = true;                   // measure the limit of each case beside it
  bool cached_buffers = false;          // callers' memory no larger than a call needs, twice
  bool check = false;                   // a missed bar is a failure
  std::vector<std::string> addresses;   // of a running node; empty: start one
  std::vector<std::string> node_flags;  // for the node that is started
  std::string token_file;
  std::uint64_t set_bytes = 128ULL << 20;  // stored values that a case rotates over
  std::size_t keys = 0;                    // values in the set; 0: as many as set_bytes hold
  std::string directory;                   // of the file that transfers and the disk limit use
  std::uint64_t file_bytes = 1ULL << 30;   // its size
  bool remote = false;                     // the node's disk is a namespace of our own target
  std::uint64_t hot_bytes = 384ULL << 20;  // DRAM of the node whose disk is measured
  std::uint64_t seed = 1;                  // of the contents that --verify checks
  std::string json_file;

  Rhythm rhythm() const {
    Rhythm rhythm;
    rhythm.rounds = repeat;
    rhythm.round = static_cast<env::Nanos>(seconds * 1e9 / static_cast<double>(repeat));
    return rhythm;
  }
};

}  // namespace larder::apps
