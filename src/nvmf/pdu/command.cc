// SPDX-License-Identifier: Apache-2.0
#include "nvmf/pdu/command.h"

namespace larder::nvmf {

std::string_view admin_name(std::uint8_t opcode) noexcept {
  switch (static_cast<AdminOpcode>(opcode)) {
    case AdminOpcode::kGetLogPage:
      return "get log page";
    case AdminOpcode::kIdentify:
      return "identify";
    case AdminOpcode::kAbort:
      return "abort";
    case AdminOpcode::kSetFeatures:
      return "set features";
    case AdminOpcode::kGetFeatures:
      return "get features";
    case AdminOpcode::kAsyncEvent:
      return "async event request";
    case AdminOpcode::kKeepAlive:
      return "keep alive";
  }
  return "unknown";
}

std::string_view io_name(std::uint8_t opcode) noexcept {
  switch (static_cast<IoOpcode>(opcode)) {
    case IoOpcode::kFlush:
      return "flush";
    case IoOpcode::kWrite:
      return "write";
    case IoOpcode::kRead:
      return "read";
    case IoOpcode::kCompare:
      return "compare";
    case IoOpcode::kWriteZeroes:
      return "write zeroes";
    case IoOpcode::kDatasetManagement:
      return "dataset management";
  }
  return "unknown";
}

std::string_view fabrics_name(std::uint8_t type) noexcept {
  switch (static_cast<FabricsType>(type)) {
    case FabricsType::kPropertySet:
      return "property set";
    case FabricsType::kConnect:
      return "connect";
    case FabricsType::kPropertyGet:
      return "property get";
    case FabricsType::kDisconnect:
      return "disconnect";
  }
  return "unknown";
}

LogRequest LogRequest::from(const Command& command) noexcept {
  const std::uint64_t dwords =
      (command.cdw10 >> 16U | static_cast<std::uint64_t>(command.cdw11 & 0xFFFFU) << 16U) + 1;
  return {static_cast<std::uint8_t>(command.cdw10), (command.cdw10 & 1U << 15U) != 0, dwords * 4,
          command.cdw12 | static_cast<std::uint64_t>(command.cdw13) << 32U};
}

void LogRequest::put_into(Command& command) const noexcept {
  const auto dwords = static_cast<std::uint32_t>(bytes / 4 - 1);
  command.cdw10 = page | (retain_event ? 1U << 15U : 0U) | (dwords & 0xFFFFU) << 16U;
  command.cdw11 = dwords >> 16U;
  command.cdw12 = static_cast<std::uint32_t>(offset);
  command.cdw13 = static_cast<std::uint32_t>(offset >> 32U);
}

}  // namespace larder::nvmf
