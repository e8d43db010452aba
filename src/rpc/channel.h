// SPDX-License-Identifier: Apache-2.0
// The calling side of the peer protocol: one connection with many calls in flight.
//
// There is no I/O thread on the blocking path: a thread that waits for an answer takes the pump,
// and receives for everybody until its own answer is in. Calls without a waiter are pumped by one
// thread of the channel, started when it is first needed. Between the two are assisted calls: a
// thread that waits for something of which the call is a part lends itself to the pump by assist(),
// and the channel's thread steps in where nobody does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "env/clock.h"
#include "env/socket.h"
#include "larder/status.h"
#include "rpc/frame_receiver.h"
#include "rpc/payload.h"
#include "wire/frame.h"
#include "wire/handshake.h"

namespace larder::rpc {

struct ChannelOptions {
  env::SocketAddress address;
  std::string token;  // empty: none; a node that asks for one is refused
  env::Nanos connect_timeout = 2 * env::kSecond;
  // A waiter polls this long before it sleeps, and longer for the answer to a long request.
  env::Nanos spin = 100 * env::kMicro;
};

// A connection after its handshake.
struct Handshaken {
  env::Fd fd;
  std::uint64_t epoch = 0;
  std::uint64_t value = 0;  // Verdict::value
};
// `pass_fd` >= 0 is handed over in a kBuffer handshake.
Result<Handshaken> connect_and_shake(const ChannelOptions& options, wire::Purpose purpose,
                                     std::uint64_t buffer_bytes = 0, int pass_fd = -1);

// Who receives the answer.
enum class Attendance : std::uint8_t {
  kWaited,    // the caller, by wait(), next
  kPumped,    // the channel's own thread, at once
  kAssisted,  // whoever calls assist(); after some milliseconds without, the channel's own thread
};

// One call in flight. The owner keeps it alive until done() turns true or Channel::abandon
// returned.
class Call {
 public:
  virtual ~Call() = default;
  // Under the pump. Names where the reply's payload goes (nullptr: nowhere).
  virtual PayloadSink* on_reply(const wire::FrameHeader& header, std::string_view body) = 0;
  // Under the pump, exactly once: the reply and its payload are complete, or the error is final. No
  // buffer of the call is touched after this. The call may be destroyed inside unless it is waited
  // for.
  virtual void on_done(const Error* error) = 0;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }

 private:
  friend class Channel;
  std::uint64_t id_ = 0;
  env::Nanos deadline_ = 0;
  env::Nanos more_spin_ = 0;
  Attendance attendance_ = Attendance::kWaited;
  bool sending_ = false;  // send() still reads its payload: nobody may finish it
  std::atomic<bool> done_{false};
};

class Channel final : private FrameObserver {
 public:
  static Result<std::shared_ptr<Channel>> connect(const ChannelOptions& options);
  ~Channel() override;

  bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  std::uint64_t epoch() const noexcept { return epoch_; }
  unsigned in_flight() const noexcept { return in_flight_.load(std::memory_order_relaxed); }

  // Sends a request, after those that other threads are sending; a call whose turn does not come
  // before its deadline is not sent. `frame` comes from wire::frame_with(); the header's call id is
  // filled in. The payload source is read before this returns. Whatever happens, on_done() runs
  // exactly once, for a waited call here or inside some thread's wait(). A call that is not waited
  // for may already be gone when this returns.
  void send(Call& call, wire::FrameHeader header, std::string frame, PayloadSource* payload,
            env::Nanos deadline, Attendance attendance);
  // Until the call is done; on_done() has then run.
  void wait(Call& call);
  // Receives once, without waiting, if assisted calls are in flight and no other thread receives.
  // True when something came.
  bool assist();
  // The calling thread stops assisting for now, and others may not: the channel's thread receives
  // until there are no assisted calls, or the next assist().
  void hand_over();
  // The calling thread is going to sleep until descriptor() is readable, and will assist() then.
  // One thread at a time; false: another does, or there are no assisted calls.
  bool attend();
  void leave();
  int descriptor() const noexcept { return fd_.get(); }
  // True once the peer has closed its side; costs a system call.
  bool peer_closed() const noexcept;
  bool on_pump_thread() const noexcept;
  // Ends every call in flight, and the channel's thread. Not from that thread.
  void close();
  // Breaks the connection: all calls in flight end with kUnavailable. Any thread.
  void shut_down() noexcept;

 private:
  Channel(const ChannelOptions& options, Handshaken connection);

  Result<PayloadSink*> on_frame(const wire::FrameHeader& header, std::string_view body) override;
  Result<void> on_payload_end() override;

  bool wait_for_turn(env::Nanos deadline);
  void register_call(Call& call);
  void end_sending(Call& call);
  void end_unsent(Call& call);
  Result<void> send_all(std::string& frame, PayloadSource* payload, std::uint64_t payload_bytes,
                        env::Nanos deadline);
  Result<void> send_pieces(std::span<iovec> pieces, env::Nanos deadline);
  bool wait_writable(std::span<iovec>& pieces, env::Nanos deadline);
  void pump_until_done(Call& call);
  void pump_once(env::Nanos until, env::Nanos spin);
  bool try_receive();
  void finish(Call& call, const Error* error);
  void expire_calls(env::Nanos now);
  env::Nanos earliest_deadline();
  void fail_all(const Error& error);
  void release_pump();
  void run_pump_thread();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);

  const env::Nanos spin_;
  const env::Fd fd_;
  const std::uint64_t epoch_;
  const std::string peer_;
  std::atomic<bool> broken_{false};
  std::atomic<unsigned> in_flight_{0};

  std::mutex turn_mutex_;
  std::condition_variable turn_free_;
  bool turn_taken_ = false;  // a thread is sending

  std::mutex calls_mutex_;
  std::condition_variable calls_changed_;
  std::unordered_map<std::uint64_t, Call*> calls_;
  std::uint64_t next_id_ = 1;
  unsigned pumped_ = 0;    // calls that the pump thread is responsible for
  unsigned assisted_ = 0;  // and those that it is if nobody else comes
  unsigned assists_ = 0;   // how often somebody came
  bool handed_over_ = false;
  bool attended_ = false;    // somebody sleeps on the descriptor
  bool dozing_ = false;      // the pump thread sleeps until it is told
  unsigned sleepers_ = 0;    // threads in wait() that do not hold the pump
  bool pump_waits_ = false;  // the pump waits for a send to end
  bool pump_taken_ = false;  // the pump token: whoever set it receives, for everybody
  bool stopping_ = false;
  std::thread pump_thread_;

  FrameReceiver receiver_;     // the rest under the pump
  Call* receiving_ = nullptr;  // whose payload is coming in
  env::Nanos last_expiry_ = 0;
};

}  // namespace larder::rpc
