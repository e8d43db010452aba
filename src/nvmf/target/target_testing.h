// SPDX-License-Identifier: Apache-2.0
// Targets for tests, and a host that is connected to one.
#pragma once

#include <memory>
#include <utility>

#include "nvmf/target/target_testing_queue.h"

namespace larder::nvmf {

// A connected admin queue, and I/O queues beside it.
class TestHost {
 public:
  explicit TestHost(const Target& target, QueueOptions options = {})
      : target_(target), options_(std::move(options)), admin_(target.address()) {
    admin_.negotiate(options_);
    const Answer answer = admin_.connect(options_, 0, kAnyController, target.nqn());
    EXPECT_TRUE(answer.status.ok()) << to_string(answer.status);
    cntlid_ = static_cast<std::uint16_t>(answer.value);
    EXPECT_TRUE(admin_.set_configuration(Cc::enabled()).status.ok());
  }
  TestQueue& admin() { return admin_; }
  std::uint16_t cntlid() const { return cntlid_; }
  std::unique_ptr<TestQueue> io_queue(std::uint16_t qid) { return io_queue(qid, options_); }
  std::unique_ptr<TestQueue> io_queue(std::uint16_t qid, const QueueOptions& options) {
    auto queue = std::make_unique<TestQueue>(target_.address());
    queue->negotiate(options);
    const Answer answer = queue->connect(options, qid, cntlid_, target_.nqn());
    EXPECT_TRUE(answer.status.ok()) << to_string(answer.status);
    return queue;
  }

 private:
  const Target& target_;
  const QueueOptions options_;
  TestQueue admin_;
  std::uint16_t cntlid_ = 0;
};

inline TargetOptions test_options() {
  TargetOptions options;
  options.listen.port = 0;
  options.nqn = "nqn.2024-01.io.larder:test";
  return options;
}

inline NamespaceOptions ram(std::uint64_t bytes, std::uint32_t block_bytes = 4096) {
  NamespaceOptions options;
  options.ram_bytes = bytes;
  options.block_bytes = block_bytes;
  options.populate = false;
  return options;
}

inline std::unique_ptr<Target> ram_target(TargetOptions options = test_options(),
                                          std::uint64_t bytes = 16 * kMiB) {
  return value_of(Target::create(std::move(options), {ram(bytes)}));
}

}  // namespace larder::nvmf
