// SPDX-License-Identifier: Apache-2.0
// put: values go out checksummed on the way; to a node on this host they go through shared memory,
// and the node copies them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "client/op.h"
#include "client/put_source.h"

namespace larder::client {

class PutOp final : public Op {
 public:
  PutOp(ClientCore& core, std::vector<PutItem> items, PutMode mode);
  ~PutOp() override;
  Result<bool> local_pass() override;
  Result<Question> ask(Lane& lane) override;
  Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                      std::string_view body) override;
  void on_end(const Error* error) override;
  void deliver(const Error* error) override;
  Intent own_intent() const noexcept override;
  std::vector<PutResult>& result() noexcept { return results_; }
  Callback<std::vector<PutResult>> done;

 private:
  bool judge_item(std::size_t item);
  Result<void> choose_source(Lane& lane, std::uint64_t bytes, Question& question);

  std::vector<PutItem> items_;
  const PutMode mode_;
  std::vector<PutResult> results_;
  std::vector<std::uint32_t> pending_;
  bool checked_ = false;
  bool force_ = false;   // this round sends what was answered "send again"
  bool inline_ = false;  // the node has lost the buffer: send the bytes themselves
  std::uint64_t buffer_id_ = 0;
  std::unique_ptr<PutSource> source_;
  qos::ManagedTransfers::Transfer transfer_;
};

std::uint64_t bytes_of(const PutItem& item) noexcept;

}  // namespace larder::client
