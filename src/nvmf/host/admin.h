// SPDX-License-Identifier: Apache-2.0
// Admin commands, one at a time, waited for.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nvmf/host/queue_pair.h"
#include "nvmf/pdu/identify.h"
#include "nvmf/pdu/log_page.h"
#include "nvmf/pdu/properties.h"

namespace larder::nvmf {

// Not thread safe. Every call ends by the deadline it is given (monotonic); errors as
// QueuePair::execute(), and what code_of() makes of a command that was refused.
class Admin {
 public:
  explicit Admin(std::unique_ptr<QueuePair> pair) : pair_(std::move(pair)) {}

  QueuePair& pair() noexcept { return *pair_; }
  // Gets what ends while something else is waited for.
  void on_others(QueuePair::Others others) { others_ = std::move(others); }

  // CAP, CC.EN, and CSTS.RDY within what CAP.TO says (Base 2.0 section 3.5.1).
  Result<Cap> enable(env::Nanos deadline);
  // CC.SHN, and until CSTS.SHST says that it is done (section 3.6.1).
  Result<void> shut_down(env::Nanos deadline);
  Result<std::uint64_t> get_property(PropertyOffset offset, env::Nanos deadline);
  Result<void> set_property(PropertyOffset offset, std::uint64_t value, env::Nanos deadline);

  Result<IdentifyController> identify_controller(env::Nanos deadline);
  Result<IdentifyNamespace> identify_namespace(std::uint32_t nsid, env::Nanos deadline);
  // Nothing in it where the controller does not know that list.
  Result<NamespaceIds> namespace_ids(std::uint32_t nsid, env::Nanos deadline);
  // The first 1,024 of them.
  Result<std::vector<std::uint32_t>> active_namespaces(env::Nanos deadline);
  // I/O queues that may be used, of `wanted`.
  Result<std::uint16_t> set_queues(std::uint16_t wanted, env::Nanos deadline);
  Result<void> set_events(std::uint32_t events, env::Nanos deadline);
  Result<void> read_log(LogPage page, std::uint64_t offset, std::span<std::byte> into,
                        env::Nanos deadline);

  // Begins a command whose end goes to whom on_others() names.
  void begin(AdminOpcode opcode, std::uint64_t owner);

 private:
  Result<Completion> run(const Request& request, const std::string& what, env::Nanos deadline);
  Result<void> identify(IdentifyCns cns, std::uint32_t nsid, std::span<std::byte> into,
                        env::Nanos deadline);

  std::unique_ptr<QueuePair> pair_;
  QueuePair::Others others_;
};

}  // namespace larder::nvmf
