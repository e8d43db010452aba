// SPDX-License-Identifier: Apache-2.0
// One operation of a client: some rounds of question and answer, often none.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "larder/client.h"
#include "larder/status.h"
#include "qos/managed.h"
#include "rpc/channel.h"
#include "rpc/payload.h"
#include "wire/frame.h"

namespace larder::client {

class ClientCore;
struct Lane;

// What the next round asks. `payload` stays the operation's.
struct Question {
  wire::Op op = wire::Op::kInfo;
  std::string frame;
  rpc::PayloadSource* payload = nullptr;
  std::uint64_t payload_bytes = 0;
};

// Used by one thread at a time: the caller's, or whoever pumps the answer.
class Op : public rpc::Call {
 public:
  explicit Op(ClientCore& core) : core_(core) {}

  // Does what needs no round trip. True: the result is complete. Called before every round.
  virtual Result<bool> local_pass() = 0;
  // What to ask, over which connection.
  virtual Result<Question> ask(Lane& lane) = 0;
  // The answer's body. Where its payload goes, or nullptr.
  virtual Result<rpc::PayloadSink*> on_answer(const wire::FrameHeader& header,
                                              std::string_view body) = 0;
  // The answer with its payload is there.
  virtual Result<void> on_answered() { return {}; }
  // No round follows; `error` null: the result is complete.
  virtual void on_end(const Error* error) {}
  // Asynchronous operations: hands the result over. Called once, last.
  virtual void deliver(const Error* error) {}
  // Asking twice does no harm, so a broken connection is worth a second try.
  virtual bool repeatable() const noexcept { return true; }
  // Why its values move, where the caller does not say.
  virtual Intent own_intent() const noexcept { return Intent::kUnknown; }
  // Belongs on the connection that holds this client's pins.
  virtual bool pinned_lane() const noexcept { return false; }

  rpc::PayloadSink* on_reply(const wire::FrameHeader& header, std::string_view body) final;
  void on_done(const Error* error) final;

 protected:
  env::Nanos deadline() const noexcept { return deadline_; }
  // A thread waits for it, so that local_pass() may take its time.
  bool waited() const noexcept { return !async_; }
  const qos::Purpose& purpose() const noexcept { return purpose_; }
  qos::Label label(TransportType transport, Opcode opcode) const noexcept;
  ClientCore& core_;

 private:
  friend class ClientCore;
  void conclude(const Error* error) {
    on_end(error);
    deliver(error);
  }
  qos::Purpose purpose_;        // in the frames too
  std::optional<Error> error_;  // of this round
  bool retried_ = false;
  bool async_ = false;
  env::Nanos deadline_ = 0;
  std::uint64_t trace_id_ = 0;
  std::shared_ptr<Lane> lane_;  // kept while a round is in flight
};

}  // namespace larder::client
