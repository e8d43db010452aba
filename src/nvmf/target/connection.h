// SPDX-License-Identifier: Apache-2.0
// One connection of a host: one queue of one controller. Reads PDUs, carries commands out, sends
// what they answer. All of it on its reactor's thread.
//
// What is bounded: commands in flight by the size of the queue that Connect asked for, data of
// devices by the pool, everything else by those two. A host that does not read holds up its own
// commands only.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "env/fd.h"
#include "nvmf/pdu/connect.h"
#include "nvmf/pdu/pdu.h"
#include "nvmf/target/chunk_pool.h"
#include "nvmf/target/controller.h"
#include "nvmf/target/counters.h"
#include "nvmf/target/inbox.h"
#include "nvmf/target/sender.h"
#include "nvmf/target/slot.h"
#include "nvmf/target/subsystem.h"

namespace larder::nvmf {

// What the connections of one reactor share.
struct ReactorShared {
  Subsystem& subsystem;
  ReactorCounters& counters;
  std::function<TargetStats()> stats;  // of all reactors
  std::shared_ptr<Inbox> inbox;
  ChunkPool pool;
  std::shared_ptr<const NamespaceTable> table;
  std::uint64_t generation = 0;
  env::Nanos now = 0;       // as of this round
  bool room_freed = false;  // chunks came back
  std::size_t waiting = 0;  // slots that wait for chunks, of all connections

  // The table as it is now.
  void refresh() {
    const std::uint64_t latest = subsystem.generation();
    if (latest == generation) return;
    generation = latest;
    table = subsystem.table();
  }
};

class Connection final : SentObserver {
 public:
  Connection(env::Fd socket, ReactorShared& shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const noexcept { return socket_.get(); }
  // Reads and carries out what is there, and sends what came of it. `worked`: there was something.
  void on_ready(bool& worked);
  // A job of one of its slots is back.
  void on_device_done(Slot& slot);
  // Chunks may be free.
  void on_room();
  // Looks at its controller: closes when that has ended, sends events that wait.
  void on_sweep();
  // Time-outs. `paused`: the process did not run for a while, and no host is to blame.
  void on_tick(bool paused);

  bool wants_write() const noexcept { return !sender_.empty(); }
  bool reads() const noexcept { return !stuffed_; }
  // The socket is to be closed. Once no job is with a worker, it can be destroyed.
  bool closing() const noexcept { return closing_; }
  bool quiet() const noexcept { return on_device_ == 0; }
  void close() noexcept;
  // Sends what the socket takes.
  void flush();
  // Of those that wait for chunks, or throw nothing away for want of them.
  bool wants_room() const noexcept { return stuffed_ || !waiting_.empty(); }

 private:
  static constexpr std::size_t kBufferBytes = 32U << 10U;
  static constexpr std::uint32_t kAdminCapsuleBytes = 8192;  // TCP 3.6.2.5: at least
  static constexpr std::size_t kFirstSlots = 4;

  // Receiving: connection.cc
  bool read_once(bool& drained);
  bool read_into_buffer(bool& drained);
  bool read_into_slot(bool& drained);
  void parse();
  bool parse_one();
  std::uint32_t data_max(PduType type) const noexcept;
  bool may_come_now(PduType type) const noexcept;
  bool on_pdu(const PduLayout& layout, std::span<const std::byte> bytes);
  void on_ic_req(const IcReq& request);
  bool on_capsule(const PduLayout& layout, std::span<const std::byte> bytes);
  void send_notice(std::size_t bytes);
  void give_up(const PduFault& fault, std::span<const std::byte> offending);
  std::span<const std::byte> unread() const noexcept {
    return {buffer_.get() + begin_, end_ - begin_};
  }

  // Data of H2CData: data_in.cc
  bool begin_data(const PduLayout& layout, const H2cData& pdu, std::span<const std::byte> head);
  void take_buffered_data();
  std::size_t data_places(std::size_t available, std::span<iovec> into);
  std::size_t memory_places(std::size_t available, std::span<iovec> into);
  std::size_t chunk_places(std::size_t available, std::span<iovec> into);
  std::size_t take_data(std::span<const iovec> places, std::size_t bytes);
  void keep_partial();
  void end_data_if_whole();
  void finish_data(Slot& slot);
  void ask(Slot& slot);
  std::size_t read_ahead() const noexcept;

  // Commands: commands.cc
  Slot* take_slot(const Command& command);
  void on_command(const Command& command, std::span<const std::byte> data, bool data_digest_ok);
  void complete(Slot& slot, Status status, std::uint64_t value = 0);
  void answer(Slot& slot, std::span<const block::Piece> data, std::uint32_t bytes,
              std::uint32_t unit);
  void answer_page(Slot& slot, std::vector<std::byte> page, std::uint32_t bytes);
  void release(Slot& slot);
  void on_sent(Output& output) override;
  bool take_chunks(Slot& slot, bool within_share = true);
  bool take_reserve(Slot& slot);
  bool has_room_for_capsule() const noexcept;
  void give_chunks(Slot& slot);
  void fill_pieces(Slot& slot);

  // Commands of I/O queues: io_commands.cc
  void on_io(Slot& slot, std::span<const std::byte> data);
  void begin_read(Slot& slot);
  void begin_write(Slot& slot, std::span<const std::byte> data);
  void begin_zeroes(Slot& slot);
  void begin_deallocate(Slot& slot, std::span<const std::byte> data);
  Status check_range(const Slot& slot) const;
  Status check_data(const Slot& slot, std::span<const std::byte> data) const;
  void with_room(Slot& slot);
  void go_on(Slot& slot);
  void answer_read(Slot& slot);
  void deallocate(Slot& slot, std::span<const std::byte> ranges);
  void to_device(Slot& slot, DiskJob::Kind kind);
  bool must_wait(const Command& command, std::size_t data_bytes) const noexcept;

  // Commands of admin queues: admin_commands.cc
  void on_admin(Slot& slot);
  env::SocketAddress local_address() const;
  void identify(Slot& slot);
  void get_log_page(Slot& slot);
  void get_features(Slot& slot);
  void set_features(Slot& slot);
  void async_event(Slot& slot);
  void send_events();

  // Fabrics commands: fabrics_commands.cc
  void on_fabrics(Slot& slot, std::span<const std::byte> data);
  void connect(Slot& slot, std::span<const std::byte> data);
  void get_property(Slot& slot);
  void set_property(Slot& slot);

  ReactorShared& shared_;
  env::Fd socket_;
  Sender sender_;
  Output notice_;             // an ICResp or a C2HTermReq
  bool notice_used_ = false;  // it is being sent
  bool closing_ = false;
  bool leaving_ = false;  // closes when all is sent
  bool ending_ = false;   // a C2HTermReq is on its way; what comes is thrown away
  bool stuffed_ = false;  // a capsule waits for chunks, and what follows it with it
  bool negotiated_ = false;
  Framing in_;
  Framing out_;

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  // The H2CData whose data are coming.
  Slot* incoming_ = nullptr;
  std::uint32_t incoming_left_ = 0;  // bytes of data
  std::uint32_t digest_left_ = 0;    // bytes of their digest
  std::uint32_t incoming_crc_ = 0;
  bool incoming_digest_ = false;
  std::array<std::byte, kDigestBytes> digest_{};
  // The beginning of a block of memory that has not come whole yet, and a place for the next such.
  std::array<std::array<std::byte, 4096>, 2> partial_;
  std::size_t partial_now_ = 0;
  std::size_t partial_bytes_ = 0;

  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
  std::bitset<65536> cids_;    // of commands in flight
  std::size_t asking_ = 0;     // slots in kAsks
  std::size_t on_device_ = 0;  // slots in kOnDevice
  std::deque<Slot*> waiting_;  // in kWaitsForRoom
  std::size_t chunks_held_ = 0;
  // One chunk of its own, for data that came in a capsule when the pool is used up: otherwise
  // capsules could hold up the data that others need to give their chunks back.
  block::AlignedBuffer reserve_;
  bool reserve_used_ = false;
  std::vector<Slot*> held_;  // in kHeld

  std::shared_ptr<Controller> controller_;
  std::uint32_t incarnation_ = 0;
  std::uint16_t qid_ = 0;
  std::uint32_t entries_ = 0;  // of the queue
  bool sq_flow_ = true;
  std::uint16_t sqhd_ = 0;

  env::Nanos opened_;
  env::Nanos ending_since_ = 0;
  env::Nanos progress_;  // when the host last read or sent what we wait for
  std::uint64_t sent_before_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t received_before_ = 0;
};

}  // namespace larder::nvmf
