// SPDX-License-Identifier: Apache-2.0
// What the host says and hears on one connection after its handshake, without the connection:
// commands in flight, the PDUs that go out for them, and those that come in, checked against them.
// Nothing here makes a system call or allocates once it is made.
//
// The path of a byte. Data of writes are sent from where they lie. Data of reads are received where
// they belong: places() names the rest of the current PDU's data and, behind it, room for exactly
// the heads that come next, so that one call takes both. While every read in flight is small, the
// heads get a large buffer instead, which takes many PDUs in one call, and their data are copied:
// below some kilobytes that costs less than the calls (bench/README.md has figures).
//
// The rules a controller is held to (TCP 1.0 section 3.3 and 3.6; what is not met ends the
// connection, and the PduFault says what it was):
//   - every PDU is of a command that is in flight and was sent whole;
//   - C2HData of a command come in order, without gap or overlap, and not beyond its end;
//   - R2T likewise, and not more of them at once than MAXR2T allows;
//   - a command that ends well has moved all of its data;
//   - a C2HData may stand for the completion (SUCCESS) only where SQ flow control is off.
// Ids of commands carry a count of how often their slot was used: a completion that comes twice, or
// late, meets nobody.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"
#include "nvmf/host/piece_window.h"
#include "nvmf/pdu/command.h"
#include "nvmf/pdu/pdu.h"

namespace larder::nvmf {

inline constexpr std::uint32_t kMaxR2t = 3;  // announced: R2Ts of one command at a time, less one
inline constexpr std::uint32_t kSmallRead = 8192;  // bytes; up to here data may be copied

struct SessionLimits {
  std::uint16_t commands = 32;       // in flight at most; 1 to 4096
  std::uint32_t in_capsule_max = 0;  // data of a write that may travel with the command
  std::uint32_t h2c_data_max = 0;    // MAXH2CDATA
  bool success_allowed = false;      // SQ flow control is off
  Framing in;
  Framing out;
};

enum class DataFlow : std::uint8_t { kNone, kToHost, kToController };

// One command of the host, and what it moves.
struct Request {
  Command command;  // without id and SGL
  DataFlow flow = DataFlow::kNone;
  PieceWindow data;
  std::uint64_t owner = 0;  // whose it is; comes back
};

struct Ended {
  Request request;
  Completion completion;
  bool digest_wrong = false;  // data came with a digest that is not theirs; nothing else is known
  env::Nanos begun = 0;
};

// Not thread safe.
class Session {
 public:
  explicit Session(const SessionLimits& limits);

  std::size_t room() const noexcept { return free_.size(); }
  std::size_t in_flight() const noexcept { return slots_.size() - free_.size(); }
  // Takes a command; needs room(). `now` is only kept.
  void submit(const Request& request, env::Nanos now);
  // What has ended, in order, once. How many.
  std::size_t take_ended(std::span<Ended> into);
  bool any_ended() const noexcept { return ended_first_ != ended_.size(); }
  // After the connection is gone: visit(const Request&) for each in flight. Of no use afterwards.
  template <class Visit>
  void abandon(Visit&& visit) {
    for (Slot& slot : slots_) {
      if (slot.used) visit(slot.request);
      slot.used = false;
    }
    free_.clear();
  }
  // When the oldest command in flight was taken; kNoDeadline without one. Looks at all.
  env::Nanos oldest() const noexcept;
  template <class Visit>
  void visit_older(env::Nanos than, Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.used && slot.begun <= than) visit(slot.request);
    }
  }

  // ---- out: what is to be sent next; 0: nothing.
  std::size_t outgoing(std::span<iovec> into);
  void sent(std::size_t bytes);
  bool has_outgoing() const noexcept;
  bool mid_pdu() noexcept { return !out_.empty() && out_.at(0).sent > 0; }
  void allow_success() noexcept { limits_.success_allowed = true; }

  // ---- in: where the next bytes go; at least one place. `into` has room for two.
  std::size_t places(std::span<iovec> into);
  Checked<void> received(std::size_t bytes);
  // The head of the PDU that the last fault was about, as far as it came.
  std::span<const std::byte> offending() const noexcept {
    return {stage_.get() + parsed_, std::min(stage_used_ - parsed_, sizeof(C2hData))};
  }
  // What the controller said when it ended the connection; empty otherwise.
  const std::string& complaint() const noexcept { return complaint_; }
  std::uint64_t digest_errors() const noexcept { return digest_errors_; }

 private:
  struct Slot {
    bool used = false;
    bool in_capsule = false;
    bool large = false;  // a read that is no small one
    bool digest_wrong = false;
    bool sent = false;       // the command itself
    bool last_seen = false;  // of the data of a read
    bool completed = false;  // but data of it are still going out
    std::uint16_t cid = 0;
    std::uint16_t pdus_out = 0;  // being sent
    std::uint16_t grants = 0;    // R2Ts that are not answered whole
    std::uint32_t moved = 0;     // reads: bytes received; writes: bytes asked for
    env::Nanos begun = 0;
    Completion completion;
    Request request;
  };
  // An R2T that is being answered.
  struct Grant {
    std::uint16_t slot = 0;
    std::uint16_t ttag = 0;
    std::uint32_t offset = 0;
    std::uint32_t left = 0;
  };
  // A PDU that is being sent.
  struct Outgoing {
    std::array<std::byte, kHeadBytesMax> head;
    std::uint32_t head_bytes = 0;
    std::uint32_t data_offset = 0;
    std::uint32_t data_bytes = 0;
    std::uint32_t digest_bytes = 0;
    std::uint32_t digest = 0;
    std::uint32_t sent = 0;
    std::uint16_t slot = 0;
    bool ends_grant = false;

    std::uint32_t total() const noexcept { return head_bytes + data_bytes + digest_bytes; }
  };
  // A queue of bounded length in memory of its own.
  template <class T>
  class Ring {
   public:
    explicit Ring(std::size_t capacity) : items_(capacity) {}
    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    bool full() const noexcept { return count_ == items_.size(); }
    T& at(std::size_t i) noexcept { return items_[(first_ + i) % items_.size()]; }
    T& push() noexcept { return at(count_++); }
    void pop() noexcept {
      first_ = (first_ + 1) % items_.size();
      --count_;
    }

   private:
    std::vector<T> items_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
  };

  // ---- out
  void build();
  void build_capsule(std::uint16_t number);
  void build_data(Grant& grant);
  void attach_data(Outgoing& pdu, std::uint32_t offset, std::uint32_t bytes);
  void finish_pdu(const Outgoing& pdu);
  // ---- in
  Checked<void> parse();
  Checked<bool> parse_one();
  Checked<void> on_pdu(const PduLayout& layout, std::span<const std::byte> head);
  Checked<void> on_term(const PduLayout& layout);
  Checked<void> on_data(std::span<const std::byte> head, const PduLayout& layout);
  Checked<void> on_r2t(std::span<const std::byte> head);
  Checked<void> on_response(std::span<const std::byte> head);
  Checked<void> end_data();
  Checked<Slot*> slot_of(std::uint16_t cid, PduType type);
  Checked<void> complete(Slot& slot, const Completion& completion, PduType type);
  void end(Slot& slot);
  void take_data(std::uint32_t bytes);
  std::size_t head_room() const noexcept;

  SessionLimits limits_;
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> free_;
  std::uint16_t slot_mask_ = 0;
  std::uint16_t large_reads_ = 0;
  std::vector<Ended> ended_;
  std::size_t ended_first_ = 0;

  Ring<std::uint16_t> capsules_;  // slots whose command is to be sent
  Ring<Grant> grants_;
  Ring<Outgoing> out_;

  static constexpr std::size_t kPdusOut = 64;  // built ahead, for one system call
  static constexpr std::size_t kStageBytes = 64U << 10U;
  std::unique_ptr<std::byte[]> stage_;  // heads, and data of small reads
  std::size_t stage_used_ = 0;
  std::size_t parsed_ = 0;  // of those
  std::string complaint_;
  std::uint64_t digest_errors_ = 0;
  // Of the C2HData whose data are coming.
  Slot* reading_ = nullptr;
  std::uint32_t data_left_ = 0;
  bool digest_due_ = false;
  bool last_ = false;
  bool success_ = false;
  std::uint32_t digest_ = 0;
};

}  // namespace larder::nvmf
