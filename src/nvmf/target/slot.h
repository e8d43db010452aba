// SPDX-License-Identifier: Apache-2.0
// A command on its way through the target: from its capsule to the last byte of its response.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nvmf/pdu/command.h"
#include "nvmf/target/disk_worker.h"
#include "nvmf/target/namespace.h"
#include "nvmf/target/sender.h"

namespace larder::nvmf {

class Connection;

struct Slot : Output {
  enum class State : std::uint8_t {
    kFree,
    kAsks,          // an R2T is to be sent or has been sent; data are to come
    kWaitsForRoom,  // for chunks
    kOnDevice,      // a job is with a worker
    kHeld,          // an asynchronous event request
    kAnswers,       // the last of it is being sent
  };
  State state = State::kFree;
  bool r2t_sent = false;
  bool uses_reserve = false;
  bool digest_failed = false;  // of any data received
  std::uint16_t index = 0;     // and the TTAG
  Connection* connection = nullptr;
  Command command;
  std::uint32_t bytes = 0;      // of data
  std::uint32_t received = 0;   // of them
  std::uint32_t asked_end = 0;  // R2Ts so far cover [0, asked_end)
  std::shared_ptr<const Namespace> space;
  std::byte* place = nullptr;      // of data in a namespace's memory
  block::Piece flat;               // one piece for the output
  std::vector<std::byte*> chunks;  // data on their way to or from a device, or ranges
  std::vector<std::byte> page;     // what an admin command answers with
  std::unique_ptr<DiskJob> job;    // made when first needed, then kept
};

}  // namespace larder::nvmf
