// SPDX-License-Identifier: Apache-2.0
// The store as an application sees it: immutable values under keys, in batches.
//
// Threads: every method may be called from any thread at any time. Callbacks run on whichever
// thread received the answer (often the client's own I/O thread): keep them short and never block
// in one. Lifetime: keys and buffers of a call must stay valid until it returned, or until its
// callback ran. A call that timed out has let go of every buffer before it says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "larder/transfer_types.h"
#include "larder/value.h"

namespace larder {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline constexpr std::size_t kKeyBytesMax = 1024;            // of a logical key
inline constexpr std::uint64_t kValueBytesMax = 4ULL << 30;  // 4 GiB
inline constexpr std::size_t kBatchItemsMax = 65536;         // keys in one call

// Where keys live: (tenant, domain, object set) above the logical key. Each 1..255 bytes.
struct KeySpace {
  std::string tenant = "default";
  std::string domain = "default";
  std::string object_set = "default";
};

enum class Path : std::uint8_t {
  kAuto = 0,          // shared memory when the node is on this host, else TCP
  kSharedMemory = 1,  // copy from the node's mapped segments; requests over its Unix socket
  kUnixSocket = 2,    // bytes through the Unix socket
  kTcp = 3,
};
std::string_view path_name(Path path) noexcept;

struct ClientOptions {
  // "unix:/run/larder/node.sock" or "tcp:127.0.0.1:7411" (or HOST:PORT). Empty: the default socket
  // of a node on this host, see default_socket_path().
  std::string address;
  KeySpace space;
  Path path = Path::kAuto;
  std::string token_file;                    // needed where the node asks for a token
  std::chrono::milliseconds timeout{10000};  // for a call that names none
  std::chrono::milliseconds connect_timeout{2000};
  std::size_t connections_max = 4;            // per node; opened as concurrent calls need them
  std::size_t route_cache_entries = 1 << 16;  // shared-memory path only; 0 turns it off
  std::uint64_t window_bytes = 8ULL << 20;    // staging ring for local puts, per connection
  std::chrono::microseconds spin{100};        // how long a waiter spins before it sleeps
};

struct CallOptions {
  std::chrono::milliseconds timeout{0};  // 0: the client's default
  std::uint64_t trace_id = 0;            // travels in the frame and comes back in the answer
  // Why values move, for both ends' books (docs/operations.md). kUnknown: what the call itself
  // says: a get is a prefix fetch (HIGH); a put is a DRAM offload, or over TCP a remote store's
  // write (LOW).
  Intent intent = Intent::kUnknown;
  TrafficClass traffic_class = TrafficClass::kFromIntent;
};

enum class PutMode : std::uint8_t {
  kReplace = 0,   // another value under the key is replaced, atomically
  kIfAbsent = 1,  // another value under the key is kept: kAlreadyExists
};

struct PutOptions : CallOptions {
  PutMode mode = PutMode::kReplace;
};

// One value to store, gathered from `pieces` in order. 1 byte to kValueBytesMax in all.
struct PutItem {
  std::string_view key;
  std::span<const ConstBytes> pieces;
};
// One value to fetch, scattered over `pieces` in order. Their sum must be at least the value's
// size.
struct GetItem {
  std::string_view key;
  std::span<const MutableBytes> pieces;
};

struct PutResult {
  Code code = Code::kInternal;
  std::string message;          // empty when code is kOk
  bool already_stored = false;  // the same bytes were there: nothing was moved
  std::uint64_t version = 0;
};
struct GetResult {
  Code code = Code::kInternal;
  std::string message;
  std::uint64_t size = 0;  // of the value; set also when the destination was too small
};
// Where a value is.
enum class Tier : std::uint8_t {
  kHot = 0,         // in a node's DRAM
  kCold = 1,        // on one of its disks
  kHotAndCold = 2,  // both
};
// "hot", "cold", "hot+cold"; other numbers: "unknown".
std::string_view tier_name(Tier tier) noexcept;

struct ObjectInfo {
  std::uint64_t size = 0;
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the value
  std::uint32_t pins = 0;
  Tier tier = Tier::kHot;
  Path path = Path::kAuto;  // how this client would read it
};
struct StatResult {
  Code code = Code::kInternal;
  std::string message;
  ObjectInfo info;
};
struct RemoveResult {
  Code code = Code::kInternal;
  std::string message;
};
// The longest run of present keys from the front of the list.
struct PrefixMatch {
  std::size_t keys = 0;              // how many, from the front
  std::uint64_t bytes = 0;           // their sizes added up
  std::vector<std::uint64_t> sizes;  // of each key in the run
  std::vector<Tier> tiers;           // likewise
};
struct ListEntry {
  std::string key;
  std::uint64_t size = 0;
  std::uint64_t version = 0;
};
struct ListPage {
  std::vector<ListEntry> entries;
  std::string next;  // pass to the next call; empty at the end
};
struct NodeInfo {
  std::string id;  // "stable:epoch"
  std::string version;
  Path path = Path::kAuto;  // what this client picked
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t objects = 0;
  std::uint64_t evictions = 0;  // objects, since the node started
  std::uint64_t pins = 0;
  std::uint64_t connections = 0;
  std::uint64_t warmed_bytes = 0;  // of the capacity: pages whose first, slow access is over
  std::string segment_pages;       // "4KiB" | "2MiB" | "thp"
};

// One disk of a node's cold tier.
struct DeviceInfo {
  std::string id;     // uuid, made when the device was added
  std::string path;   // on the node's host
  std::string state;  // "healthy" | "full" | "draining" | "failed" | "disabled_by_admin"
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t errors = 0;  // reads and writes that failed, ever
  std::string last_error;    // empty: none
};
enum class DeviceAction : std::uint8_t {  // numbers travel on the wire
  kAdd = 1,
  kDrain = 2,    // takes nothing new, and is emptied
  kDisable = 3,  // neither read nor written until it is enabled
  kEnable = 4,
  kRemove = 5,  // the node forgets the device; what is on it stays
};
struct DeviceChange {
  DeviceAction action = DeviceAction::kAdd;
  // kAdd: the absolute path of a directory or block device on the node's host. Else: the whole id.
  std::string device;
  std::uint64_t size_bytes = 0;  // kAdd: use so much at most; 0: what is there
};

// A value held in place. While it lives the node keeps the bytes; the view is read-only.
// It ends with unpin, with this object, or with the connection (then valid() turns false).
class PinnedView {
 public:
  PinnedView(PinnedView&&) noexcept;
  PinnedView& operator=(PinnedView&&) noexcept;
  ~PinnedView();
  ConstBytes bytes() const noexcept;
  bool valid() const noexcept;
  struct Impl;
  explicit PinnedView(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Memory both sides can reach: a put from it is copied once, by the node, with no staging.
class SharedBuffer {
 public:
  SharedBuffer(SharedBuffer&&) noexcept;
  SharedBuffer& operator=(SharedBuffer&&) noexcept;
  ~SharedBuffer();
  MutableBytes bytes() const noexcept;
  struct Impl;
  explicit SharedBuffer(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

template <class T>
using Callback = std::function<void(Result<T>)>;

class Client {
 public:
  // Connects and learns what the node offers. Errors: kUnavailable (nobody there),
  // kPermissionDenied (token), kVersionMismatch, kInvalidArgument (options).
  static Result<std::unique_ptr<Client>> connect(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Batches: one answer per item, in order; the outer Result fails only when no item was tried or
  // the node went away. Up to kBatchItemsMax items.
  Result<std::vector<PutResult>> put(std::span<const PutItem> items,
                                     const PutOptions& options = {});
  Result<std::vector<GetResult>> get_into(std::span<const GetItem> items,
                                          const CallOptions& options = {});
  // Sizes need not be known: the values are allocated here. One round trip, as get_into.
  Result<std::vector<Result<Value>>> get(std::span<const std::string_view> keys,
                                         const CallOptions& options = {});
  Result<std::vector<bool>> exists(std::span<const std::string_view> keys,
                                   const CallOptions& options = {});
  Result<PrefixMatch> match_prefix(std::span<const std::string_view> keys,
                                   const CallOptions& options = {});
  Result<std::vector<RemoveResult>> remove(std::span<const std::string_view> keys,
                                           const CallOptions& options = {});
  Result<std::vector<StatResult>> stat(std::span<const std::string_view> keys,
                                       const CallOptions& options = {});
  // Keeps the objects from eviction and removal until unpin, the end of `lease` (0: none) or the
  // end of this client. One code per key.
  Result<std::vector<Code>> pin(std::span<const std::string_view> keys,
                                std::chrono::milliseconds lease = std::chrono::milliseconds{0},
                                const CallOptions& options = {});
  Result<std::vector<Code>> unpin(std::span<const std::string_view> keys,
                                  const CallOptions& options = {});
  // Keys that begin with `prefix`, in no order, at most `limit` (1..65536) a page.
  Result<ListPage> list(std::string_view prefix, std::string_view cursor = {},
                        std::size_t limit = 1000, const CallOptions& options = {});
  Result<NodeInfo> info(const CallOptions& options = {});

  // For operators: the disks of the node, and one change to them. The node takes these calls one at
  // a time (kBackpressure when many wait), over its Unix socket or from a peer that knows its token
  // (else kPermissionDenied). A change may take seconds; after a time-out it may still happen.
  // kUnsupported: a node without disks. kNotFound: no such device. kConflict: not in its state.
  Result<std::vector<DeviceInfo>> devices(const CallOptions& options = {});
  // The device as it is now; of one that was removed the id alone.
  Result<DeviceInfo> change_device(const DeviceChange& change, const CallOptions& options = {});

  // Single keys.
  Result<PutResult> put(std::string_view key, ConstBytes value, const PutOptions& options = {});
  Result<std::uint64_t> get_into(std::string_view key, MutableBytes destination,
                                 const CallOptions& options = {});
  Result<Value> get(std::string_view key, const CallOptions& options = {});
  Result<bool> exists(std::string_view key, const CallOptions& options = {});
  Result<void> remove(std::string_view key, const CallOptions& options = {});
  Result<ObjectInfo> stat(std::string_view key, const CallOptions& options = {});
  Result<void> pin(std::string_view key,
                   std::chrono::milliseconds lease = std::chrono::milliseconds{0},
                   const CallOptions& options = {});
  Result<void> unpin(std::string_view key, const CallOptions& options = {});
  // Shared-memory path only (else kUnsupported): the value in place, pinned.
  Result<PinnedView> view(std::string_view key, const CallOptions& options = {});

  // Asynchronous forms. The callback runs exactly once, possibly before the call returns.
  void put_async(std::span<const PutItem> items, const PutOptions& options,
                 Callback<std::vector<PutResult>> done);
  void get_into_async(std::span<const GetItem> items, const CallOptions& options,
                      Callback<std::vector<GetResult>> done);
  void exists_async(std::span<const std::string_view> keys, const CallOptions& options,
                    Callback<std::vector<bool>> done);
  void match_prefix_async(std::span<const std::string_view> keys, const CallOptions& options,
                          Callback<PrefixMatch> done);
  void remove_async(std::span<const std::string_view> keys, const CallOptions& options,
                    Callback<std::vector<RemoveResult>> done);
  void stat_async(std::span<const std::string_view> keys, const CallOptions& options,
                  Callback<std::vector<StatResult>> done);
  std::future<Result<std::vector<PutResult>>> put_future(std::span<const PutItem> items,
                                                         const PutOptions& options = {});
  std::future<Result<std::vector<GetResult>>> get_into_future(std::span<const GetItem> items,
                                                              const CallOptions& options = {});

  // `bytes` of shared memory (1 byte .. 64 GiB), populated and registered with the node.
  Result<SharedBuffer> alloc_buffer(std::uint64_t bytes);
  // Makes a private range known: checked to be mapped and writable, faulted in, and counted, so
  // that transfers into it never take a first-touch fault. Unregister the same address.
  Result<void> register_buffer(MutableBytes range);
  Result<void> unregister_buffer(MutableBytes range);

  Path path() const noexcept;  // what was picked: shared memory, Unix socket or TCP
  // What this client has moved, by transport, class, intent and direction: the series of the
  // transfer engine in Prometheus text format.
  std::string metrics() const;
  struct Impl;

 private:
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// $LARDER_SOCKET is not read here (configuration is passed down): the default is
// $XDG_RUNTIME_DIR/larder/node.sock, else /tmp/larder-UID/node.sock.
std::string default_socket_path();

}  // namespace larder
