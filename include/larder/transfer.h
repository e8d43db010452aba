// SPDX-License-Identifier: Apache-2.0
// The transfer engine: batches of requests between memory, peers and files. The engine picks how
// the bytes move, and knows why they move.
//
// Threads: any method, any thread, any time. Ids are opaque and carry a generation: one that was
// freed or closed is kNotFound wherever it is used, never another's object. Memory of a request is
// lent to the engine from submit() until the task is quiescent; "timed out" and "cancelled" alone
// do not give it back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"

namespace larder {

namespace obs {
class Registry;
}

struct SegmentId {
  std::uint64_t value = 0;
  bool operator==(const SegmentId&) const = default;
};
struct BatchId {
  std::uint64_t value = 0;
  bool operator==(const BatchId&) const = default;
};
// This process's own registered memory; always open.
inline constexpr SegmentId kLocalSegment{1};

inline constexpr std::size_t kBatchTasksMax = 65536;
inline constexpr std::uint64_t kTransferBytesMax = 1ULL << 40;  // of one request

enum class Opcode : std::uint8_t {
  kRead = 0,   // target to local memory
  kWrite = 1,  // local memory to target
};

struct TransferRequest {
  Opcode opcode = Opcode::kRead;
  void* local = nullptr;  // inside one registered range
  SegmentId target = kLocalSegment;
  // In a memory segment the absolute address in the process that registered it; in a file the byte.
  std::uint64_t target_offset = 0;
  std::uint64_t length = 0;  // bytes, 1 to kTransferBytesMax
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kFromIntent;
  std::chrono::steady_clock::time_point deadline{};  // none: the epoch
  std::uint64_t trace_id = 0;
  std::string_view policy;                                     // a rule's name; empty: first match
  TransportType transport_hint = TransportType::kUnspecified;  // that one, or an error
  std::uint32_t tenant = 0;
};

enum class Outcome : std::uint8_t {
  kPending = 0,
  kCompleted = 1,  // every byte has arrived
  kFailed = 2,
  kCancelled = 3,
  kTimedOut = 4,
};
std::string_view outcome_name(Outcome outcome) noexcept;

struct TaskStatus {
  Outcome outcome = Outcome::kPending;
  // Nothing can touch the request's memory any more. True with kCompleted and kFailed always.
  bool quiescent = false;
  Code code = Code::kOk;
  std::uint64_t bytes = 0;  // that have arrived; never goes down
  TransportType transport = TransportType::kUnspecified;
  std::string message;
};
struct BatchStatus {
  std::size_t tasks = 0;
  std::size_t pending = 0;  // without an outcome
  std::size_t completed = 0;
  std::size_t unquiet = 0;  // whose memory is still lent
  bool idle() const noexcept { return pending == 0 && unquiet == 0; }
  bool all_completed() const noexcept { return completed == tasks && idle(); }
};
// One per request of a submit, in order. kOk: it is task number `task` of the batch from now on.
struct SubmitResult {
  Code code = Code::kOk;
  std::uint32_t task = 0;
  std::string message;
};

// A small message to the owner of a memory segment.
struct Notification {
  std::string name;     // 1 to 255 bytes
  std::string message;  // at most 64 KiB
};

struct NotifyAfter {
  SegmentId segment;
  Notification notification;
};

struct MemoryRange {
  void* address = nullptr;
  std::uint64_t bytes = 0;
  // "*": find out. Anything else must agree with what is found: "cpu:0", "npu:1".
  std::string_view location = "*";
};
struct SegmentInfo {
  SegmentType type = SegmentType::kMemory;
  std::string name;
  bool same_process = false;
  bool same_machine = false;
  std::uint64_t incarnation = 0;  // of a peer
  std::uint64_t bytes = 0;        // of a file
  struct Buffer {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Location location;
  };
  std::vector<Buffer> buffers;  // of a memory segment, by address
};

struct TransferConfig {
  // Selection rules (docs/transfer.md), YAML or JSON; empty: the built-in ones.
  std::string policy;
  std::string policy_source = "policy";  // for error messages
  std::vector<std::string> platforms = {"cpu"};
  std::vector<std::string> transports = {"memcpy", "shm", "tcp", "io_uring"};
  // Where peers reach this engine's memory, "tcp:HOST:PORT" (port 0: any) or "unix:PATH". Empty:
  // nobody does. Beyond loopback a token is needed, or `insecure`.
  std::vector<std::string> listen;
  std::string token_file;
  bool insecure = false;
  unsigned streams = 2;                           // connections to a peer, of each class; even
  std::chrono::milliseconds peer_timeout{30000};  // what a request to a dead peer costs at most
  unsigned copy_workers = 1;                      // threads for large copies within the host
  unsigned file_workers = 1;
  unsigned file_depth = 64;  // operations in flight per file worker
  bool io_uring = true;      // false: pread/pwrite pool
  std::uint64_t high_slice_bytes = 8ULL << 20;
  std::uint64_t low_slice_bytes = 1ULL << 20;  // hard: what a HIGH transfer may have to wait for
  std::uint64_t quarantine_bytes_max = 1ULL << 30;  // lent to given-up requests; above: pushed back
  std::size_t batches_max = 65536;
  std::chrono::milliseconds drain_timeout{10000};  // at shutdown
  obs::Registry* metrics = nullptr;                // outlives the engine
};

class TransferEngine {
 public:
  static Result<std::unique_ptr<TransferEngine>> create(TransferConfig config);
  // A YAML or JSON file: the fields of TransferConfig by name, and `policy` as its list of rules.
  static Result<std::unique_ptr<TransferEngine>> create_from_file(const std::string& path);
  // Cancels what is pending and waits for it to be quiescent, `drain_timeout` at most. What is not
  // by then keeps its memory for good, and the log says so.
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // ---- memory ----
  // All ranges or none. kAlreadyExists: overlaps a registered one. kInvalidArgument: empty, wraps
  // around, or is not where `location` says.
  Result<void> register_memory(std::span<const MemoryRange> ranges);
  // By start address. kConflict while transfers use it; kNotFound.
  Result<void> unregister_memory(std::span<void* const> addresses);
  // Registered memory of the engine's own that peers on this host can map. Page-aligned.
  Result<void*> allocate_memory(std::uint64_t bytes, std::string_view location = "cpu:0");
  Result<void> free_memory(void* address);

  // ---- segments ----
  // "file:///path" for reading and writing, "tcp:HOST:PORT" or "unix:PATH" for a peer's memory.
  Result<SegmentId> open_segment(std::string_view name);
  Result<void> close_segment(SegmentId segment);  // what is in flight goes on
  Result<SegmentInfo> segment_info(SegmentId segment);
  // One round trip to the segment's owner.
  Result<std::chrono::nanoseconds> probe_peer(SegmentId segment);

  // ---- transfers ----
  Result<BatchId> allocate_batch(std::size_t tasks_max);
  // One result per request; a bad request never fails its neighbours.
  // `after` is sent to the owner of its segment when all accepted requests of the call have
  // completed, and never otherwise.
  Result<std::vector<SubmitResult>> submit(BatchId batch, std::span<const TransferRequest> requests,
                                           const NotifyAfter* after = nullptr);
  Result<TaskStatus> poll(BatchId batch, std::uint32_t task);
  Result<BatchStatus> poll(BatchId batch);
  // Until the batch is idle. kDeadlineExceeded says how many tasks are not; they go on.
  Result<BatchStatus> wait(BatchId batch, std::chrono::nanoseconds timeout);
  // Each time it is idle, on any thread, maybe after wait() or free_batch(); must not block.
  Result<void> subscribe(BatchId batch, std::function<void(BatchId)> callback);
  // Readable from each time the batch has become idle until it is read. The engine's own: do not
  // close it; valid until free_batch().
  Result<int> event_fd(BatchId batch);
  // Best effort. The outcome is kCancelled unless it had one.
  Result<void> cancel(BatchId batch, std::uint32_t task);
  // The id ends now. Tasks in flight are cancelled; their memory stays lent until they are quiet.
  Result<void> free_batch(BatchId batch);
  // JSON: rule, transport, what was tried, class, charges, slices, waits.
  Result<std::string> explain(BatchId batch, std::uint32_t task);

  // ---- notifications ----
  Result<void> send_notification(SegmentId segment, const Notification& notification);
  // Those that have come in since the last call, oldest first; at most 1024 are kept.
  std::vector<Notification> receive_notifications();

  std::vector<std::string> addresses() const;  // where peers reach it, ports filled in
  std::uint64_t quarantined_bytes() const;

 private:
  class Core;
  explicit TransferEngine(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace larder
