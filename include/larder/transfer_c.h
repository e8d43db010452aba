// SPDX-License-Identifier: Apache-2.0
// The transfer engine for C, and for whatever can call C. What the words mean and how bytes move:
// larder/transfer.h and docs/transfer.md; here is only what is different. For 64-bit machines.
//
// Answers. A call answers with a code: LARDER_OK, or what the caller may do next. The text for it
// is larder_transfer_last_error(). Out-parameters are written on success only, unless it says
// otherwise. Nothing is thrown.
// Pointers. NULL is LARDER_INVALID_ARGUMENT wherever it is not said to be allowed. Arrays of no
// elements may be NULL; arrays have at most LARDER_ARRAY_MAX elements, more is LARDER_TOO_LARGE.
// What is passed in is read, or copied, before the call returns, but for the memory of transfers.
// Text is UTF-8 and ends with a NUL.
// Structs. Set `struct_size` to sizeof the struct before each call, also where the struct is
// filled; in arrays that are read in all elements, in arrays that are filled in the first. Any
// other size is LARDER_INVALID_ARGUMENT: that is how later versions tell their callers apart. All
// else zero is the default everywhere; `reserved` is zero, or LARDER_INVALID_ARGUMENT. Text that is
// handed out. `needed` gets its bytes with the NUL. `capacity` 0 only asks for that
// (`text` may be NULL). LARDER_TOO_LARGE: does not fit; `needed` is set, `text` is left as it was.
// Threads. Any call, any thread, any time, but for larder_transfer_destroy(). Ids carry a
// generation: one that was freed or closed is LARDER_NOT_FOUND wherever it is used.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- numbers: those of larder/status.h and larder/transfer_types.h; they never change ----

typedef uint32_t larder_code;
enum {
  LARDER_OK = 0,
  LARDER_NOT_FOUND = 1,          // no such object (any more)
  LARDER_INVALID_ARGUMENT = 2,   // the call is wrong; retrying the same call cannot work
  LARDER_TOO_LARGE = 3,          // can never fit; the text says the limit
  LARDER_BACKPRESSURE = 4,       // full for now; retry later
  LARDER_CONFLICT = 5,           // someone else changed it or uses it; look again and retry
  LARDER_DEADLINE_EXCEEDED = 6,  // not in time; it may or may not have happened
  LARDER_UNAVAILABLE = 7,        // nobody there; retry elsewhere or later
  LARDER_PERMISSION_DENIED = 8,  // wrong token, wrong user
  LARDER_CORRUPT = 9,            // a peer broke the protocol, or bytes their checksum
  LARDER_EXHAUSTED = 10,         // a local limit was hit (descriptors, memory, batches)
  LARDER_UNSUPPORTED = 11,       // this build, host or peer cannot do that
  LARDER_CANCELLED = 12,         // stopped on request or by shutdown
  LARDER_VERSION_MISMATCH = 13,  // the peer speaks another protocol version
  LARDER_ALREADY_EXISTS = 14,    // overlaps what is registered
  LARDER_INTERNAL = 15           // a bug here; please report it
};

enum { LARDER_OPCODE_READ = 0, LARDER_OPCODE_WRITE = 1 };  // to local memory, from local memory

// Why bytes move. Unknown is never HIGH.
enum {
  LARDER_INTENT_UNKNOWN = 0,
  LARDER_INTENT_FOREGROUND_HANDOFF = 1,
  LARDER_INTENT_FOREGROUND_PREFIX_FETCH = 2,
  LARDER_INTENT_DRAM_OFFLOAD = 3,
  LARDER_INTENT_LOCAL_STORE_WRITE = 4,
  LARDER_INTENT_REMOTE_STORE_WRITE = 5,
  LARDER_INTENT_CHECKPOINT = 6
};

// From intent: the two foreground intents are HIGH, all others LOW.
enum { LARDER_CLASS_FROM_INTENT = 0, LARDER_CLASS_HIGH = 1, LARDER_CLASS_LOW = 2 };

enum {
  LARDER_TRANSPORT_UNSPECIFIED = 0,
  LARDER_TRANSPORT_SHM = 3,
  LARDER_TRANSPORT_GDS = 5,
  LARDER_TRANSPORT_IO_URING = 6,
  LARDER_TRANSPORT_TCP = 7,
  LARDER_TRANSPORT_NDS = 13,
  LARDER_TRANSPORT_MEMCPY = 64,
  LARDER_TRANSPORT_NVME_TCP = 65  // in metrics only
};

enum {
  LARDER_MEMORY_UNKNOWN = 0,
  LARDER_MEMORY_CPU = 1,
  LARDER_MEMORY_CUDA = 2,
  LARDER_MEMORY_NPU = 3
};

enum { LARDER_SEGMENT_MEMORY = 0, LARDER_SEGMENT_FILE = 1 };

enum {
  LARDER_OUTCOME_PENDING = 0,
  LARDER_OUTCOME_COMPLETED = 1,  // every byte has arrived
  LARDER_OUTCOME_FAILED = 2,
  LARDER_OUTCOME_CANCELLED = 3,
  LARDER_OUTCOME_TIMED_OUT = 4
};

enum {
  LARDER_LOCAL_SEGMENT = 1,          // id of this process's own registered memory; always open
  LARDER_ARRAY_MAX = 65536,          // elements; also tasks of a batch
  LARDER_NOTIFICATION_NAME = 256,    // bytes, with the NUL
  LARDER_NOTIFICATION_BYTES = 65536  // of a message
};

// ---- structs ----

typedef struct larder_transfer_engine larder_transfer_engine;

typedef struct larder_transfer_range {
  uint32_t struct_size;
  uint32_t reserved;
  void* address;
  uint64_t bytes;
  // "cpu:0", "npu:1"; must agree with what is found. NULL or "*": find out.
  const char* location;
} larder_transfer_range;

typedef struct larder_transfer_request {
  uint32_t struct_size;
  uint8_t opcode;          // LARDER_OPCODE_*
  uint8_t intent;          // LARDER_INTENT_*
  uint8_t traffic_class;   // LARDER_CLASS_*
  uint8_t transport_hint;  // LARDER_TRANSPORT_*: that one, or an error
  void* local;             // inside one registered range; lent until the task is quiescent
  uint64_t target;         // segment id, always needed
  uint64_t target_offset;  // memory: the address in the process that registered it; file: the byte
  uint64_t length;         // bytes, 1 to 2^40
  int64_t deadline_ns;     // absolute, CLOCK_MONOTONIC; 0: none
  uint64_t trace_id;
  const char* policy;  // a rule's name; NULL or "": the first that matches
  uint32_t tenant;
  uint32_t reserved;
} larder_transfer_request;

typedef struct larder_transfer_result {
  uint32_t struct_size;
  larder_code code;  // LARDER_OK: it is task number `task` of the batch from now on
  uint32_t task;
  uint32_t reserved;
} larder_transfer_result;

typedef struct larder_transfer_task {
  uint32_t struct_size;
  uint8_t outcome;    // LARDER_OUTCOME_*
  uint8_t quiescent;  // 1: nothing can touch the request's memory any more
  uint8_t transport;  // LARDER_TRANSPORT_*
  uint8_t reserved;
  larder_code code;  // why it did not complete
  uint32_t reserved2;
  uint64_t bytes;  // that have arrived; never goes down
} larder_transfer_task;

typedef struct larder_transfer_batch {
  uint32_t struct_size;
  uint8_t idle;           // 1: no task pending, no memory lent
  uint8_t all_completed;  // 1: idle, and every task completed
  uint8_t reserved[2];
  uint64_t tasks;
  uint64_t pending;    // without an outcome
  uint64_t completed;  // whose every byte has arrived
  uint64_t unquiet;    // whose memory is still lent
} larder_transfer_batch;

typedef struct larder_transfer_segment {
  uint32_t struct_size;
  uint8_t type;  // LARDER_SEGMENT_*
  uint8_t same_process;
  uint8_t same_machine;
  uint8_t reserved;
  uint64_t incarnation;  // of a peer
  uint64_t bytes;        // of a file
} larder_transfer_segment;

typedef struct larder_transfer_buffer {
  uint32_t struct_size;
  int32_t index;        // NUMA node or device; -1: unknown
  uint8_t memory_type;  // LARDER_MEMORY_*
  uint8_t reserved[7];
  uint64_t address;
  uint64_t bytes;
} larder_transfer_buffer;

// A small message to the owner of a memory segment. Neither part needs a NUL; both may hold any
// bytes.
typedef struct larder_transfer_notification {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t segment;
  const char* name;
  uint64_t name_bytes;     // 1 to 255
  const void* message;     // NULL where it has no bytes
  uint64_t message_bytes;  // at most LARDER_NOTIFICATION_BYTES
} larder_transfer_notification;

typedef struct larder_transfer_received {
  uint32_t struct_size;
  uint32_t name_bytes;  // without the NUL
  uint64_t message_bytes;
  char name[LARDER_NOTIFICATION_NAME];
} larder_transfer_received;

// ---- what was said ----

// Text of the last call on this thread: of its error, or of the task that it polled; else "".
// Never NULL; valid until the next call on this thread.
const char* larder_transfer_last_error(void);
// Text of request number `index` of the last submit on this thread; "" where it was accepted. Never
// NULL; valid until the next submit on this thread.
const char* larder_transfer_request_error(uint64_t index);
// "not_found"; "unknown" for numbers that are none. Static.
const char* larder_transfer_code_name(larder_code code);

// ---- engines ----

// `path`: a YAML or JSON file, docs/transfer.md has its keys. NULL: the defaults. `*engine` is NULL
// on error, else the caller's until larder_transfer_destroy(). LARDER_NOT_FOUND: no such file;
// LARDER_INVALID_ARGUMENT says file:line, key and what is allowed; others as they come up.
larder_code larder_transfer_create(const char* path, larder_transfer_engine** engine);
// The same from the text itself, at most 1 MiB.
larder_code larder_transfer_create_from_text(const char* text, larder_transfer_engine** engine);
// Cancels what is pending and waits for it to be quiescent, `drain_timeout` of the configuration at
// most; what is not by then keeps its memory for good. No other call may run on the engine, nor
// come later; not from a callback. NULL is allowed.
void larder_transfer_destroy(larder_transfer_engine* engine);
// Where peers reach the engine, ports filled in. LARDER_NOT_FOUND: there are only `index` of them.
larder_code larder_transfer_address(larder_transfer_engine* engine, uint32_t index, char* text,
                                    uint64_t capacity, uint64_t* needed);
// Bytes that are lent to requests that were given up and are not quiescent.
larder_code larder_transfer_quarantined_bytes(larder_transfer_engine* engine, uint64_t* bytes);
// The engine's metrics in Prometheus' text format. It grows between two calls, by little.
larder_code larder_transfer_metrics(larder_transfer_engine* engine, char* text, uint64_t capacity,
                                    uint64_t* needed);

// ---- memory ----

// All ranges or none; they stay the caller's. LARDER_ALREADY_EXISTS: overlaps a registered one.
// LARDER_INVALID_ARGUMENT: none, empty, wraps around, or not where `location` says.
larder_code larder_transfer_register_memory(larder_transfer_engine* engine,
                                            const larder_transfer_range* ranges, uint64_t count);
// By start address; all or none. LARDER_CONFLICT while transfers use it; LARDER_NOT_FOUND.
larder_code larder_transfer_unregister_memory(larder_transfer_engine* engine,
                                              void* const* addresses, uint64_t count);
// Registered memory of the engine's own that peers on this host can map; page-aligned. `location`
// NULL: "cpu:0". Goes with the engine, or with larder_transfer_free_memory().
larder_code larder_transfer_allocate_memory(larder_transfer_engine* engine, uint64_t bytes,
                                            const char* location, void** address);
// As unregister_memory.
larder_code larder_transfer_free_memory(larder_transfer_engine* engine, void* address);

// ---- segments ----

// "local", "file:///path" for reading and writing, "tcp:HOST:PORT" or "unix:PATH" for a peer's
// memory. LARDER_NOT_FOUND: no such file; LARDER_UNAVAILABLE: no peer there.
larder_code larder_transfer_open_segment(larder_transfer_engine* engine, const char* name,
                                         uint64_t* segment);
// What is in flight goes on.
larder_code larder_transfer_close_segment(larder_transfer_engine* engine, uint64_t segment);
// `info`, and of a memory segment its registered ranges by address. `*needed` gets their number,
// and `info` is filled, also with LARDER_TOO_LARGE: more than `capacity`; `buffers` is left as it
// was. `capacity` 0 asks for `info` and the number only. One round trip to a peer.
larder_code larder_transfer_segment_info(larder_transfer_engine* engine, uint64_t segment,
                                         larder_transfer_segment* info,
                                         larder_transfer_buffer* buffers, uint64_t capacity,
                                         uint64_t* needed);
// Its name in normal form. One round trip to a peer.
larder_code larder_transfer_segment_name(larder_transfer_engine* engine, uint64_t segment,
                                         char* text, uint64_t capacity, uint64_t* needed);
// Nanoseconds of one round trip to the segment's owner. LARDER_INVALID_ARGUMENT: it is no peer's.
larder_code larder_transfer_probe(larder_transfer_engine* engine, uint64_t segment,
                                  int64_t* nanoseconds);

// ---- transfers ----

// Room for `tasks_max` tasks, 1 to LARDER_ARRAY_MAX, over the batch's life. LARDER_EXHAUSTED.
larder_code larder_transfer_allocate_batch(larder_transfer_engine* engine, uint64_t tasks_max,
                                           uint64_t* batch);
// The id ends now. Tasks in flight are cancelled; their memory stays lent until they are quiescent.
larder_code larder_transfer_free_batch(larder_transfer_engine* engine, uint64_t batch);
// LARDER_OK: each request has its answer in `results`, which has room for `count`; a bad request
// never fails its neighbours, and larder_transfer_request_error() has the text for it. `after`,
// NULL allowed, is sent when all accepted requests of the call have completed, and never otherwise.
larder_code larder_transfer_submit(larder_transfer_engine* engine, uint64_t batch,
                                   const larder_transfer_request* requests, uint64_t count,
                                   larder_transfer_result* results,
                                   const larder_transfer_notification* after);
// Does not block. Of a task with a code, larder_transfer_last_error() has the text.
larder_code larder_transfer_poll(larder_transfer_engine* engine, uint64_t batch, uint32_t task,
                                 larder_transfer_task* status);
larder_code larder_transfer_poll_batch(larder_transfer_engine* engine, uint64_t batch,
                                       larder_transfer_batch* status);
// Until the batch is idle, `timeout_ns` at most (0 or less: looks once). Works meanwhile. `status`,
// NULL allowed, is filled also with LARDER_DEADLINE_EXCEEDED: the tasks go on.
larder_code larder_transfer_wait(larder_transfer_engine* engine, uint64_t batch, int64_t timeout_ns,
                                 larder_transfer_batch* status);

typedef void (*larder_transfer_idle)(void* context, uint64_t batch);
typedef void (*larder_transfer_release)(void* context);
// `idle` runs each time the batch has become idle, on any thread, also within a submit that has not
// answered yet, or after wait and free_batch; it may call the engine and must not block. Of two
// the later counts. `context` is the engine's from the call on: `release`, NULL allowed, gets it
// once, when `idle` can run no more, also when this call fails: on any thread, under the engine's
// locks, so it must not call the engine. It does not run for what an engine had to keep for good.
larder_code larder_transfer_subscribe(larder_transfer_engine* engine, uint64_t batch,
                                      larder_transfer_idle idle, void* context,
                                      larder_transfer_release release);
// Readable from each time the batch has become idle until it is read. The engine's own: do not
// close it; valid until free_batch. LARDER_EXHAUSTED: no descriptor left.
larder_code larder_transfer_event_fd(larder_transfer_engine* engine, uint64_t batch, int32_t* fd);
// Best effort. The outcome is cancelled unless there was one.
larder_code larder_transfer_cancel(larder_transfer_engine* engine, uint64_t batch, uint32_t task);
// JSON: rule, transport, what was tried, class, charges, waits. Changes while the task is in
// flight.
larder_code larder_transfer_explain(larder_transfer_engine* engine, uint64_t batch, uint32_t task,
                                    char* text, uint64_t capacity, uint64_t* needed);

// ---- notifications ----

// LARDER_BACKPRESSURE: the receiver has too many that it has not read.
larder_code larder_transfer_send_notification(larder_transfer_engine* engine,
                                              const larder_transfer_notification* notification);
// The oldest that has come in, and its message into `message` (NULL where `capacity` is 0).
// LARDER_NOT_FOUND: there is none. LARDER_TOO_LARGE: the message does not fit; `received` is
// filled, and the notification stays the oldest. LARDER_NOTIFICATION_BYTES always fit.
larder_code larder_transfer_receive_notification(larder_transfer_engine* engine,
                                                 larder_transfer_received* received, void* message,
                                                 uint64_t capacity);

#ifdef __cplusplus
}
#endif
