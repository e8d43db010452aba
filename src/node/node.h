// SPDX-License-Identifier: Apache-2.0
// A node: its memory, its routes, its sockets, its background steps. Several may live in one
// process (tests, embedding); each has its own registry of metrics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/clock.h"
#include "larder/status.h"
#include "node/node_config.h"

namespace larder::node {

class Node {
 public:
  // Starts everything; when it returns, clients are served. Errors say which key to change.
  static Result<std::unique_ptr<Node>> create(NodeOptions options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& id() const noexcept;          // "stable:epoch"
  std::string unix_address() const;                // "unix:/..."
  std::vector<std::string> tcp_addresses() const;  // "tcp:127.0.0.1:7411"
  std::string http_address() const;                // "http://127.0.0.1:7412", or empty
  std::string memory_note() const;                 // page size in use, and why not larger
  std::uint64_t used_bytes() const;
  std::uint64_t free_bytes() const;
  std::uint64_t capacity_bytes() const;
  std::uint64_t objects() const;
  std::uint64_t pins() const;
  std::uint64_t connections() const;
  std::string metrics() const;  // Prometheus text
  std::uint64_t reserved_bytes() const;
  std::uint64_t metadata_bytes() const;  // memory spent besides values
  std::uint64_t refused() const;         // strangers turned away
  // Runs the background steps now, on the calling thread: tests need not wait for them.
  void tick();

  // Stops listening, finishes the calls in progress until `timeout`, then closes. Idempotent.
  void stop(std::chrono::nanoseconds timeout);

  struct Impl;

 private:
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace larder::node
