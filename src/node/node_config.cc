// SPDX-License-Identifier: Apache-2.0
#include "node/node_config.h"

#include "env/socket.h"

namespace larder::node {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

void add_node_keys(env::ConfigSchema& schema, NodeOptions& options) {
  using env::into;
  schema
      .add_string("node.id", "", {0, 128},
                  "stable name of this node; empty: made from the socket path", into(options.id))
      .add_string("node.socket", "", {0, 107}, "Unix socket path; empty: the user's default",
                  into(options.socket))
      .add_list("node.listen", "127.0.0.1:7411", {0, 16}, "TCP addresses HOST:PORT to listen on",
                into(options.listen))
      .add_string("node.http", "127.0.0.1:7412", {0, 256},
                  "HOST:PORT of metrics and health; empty: none", into(options.http))
      .add_string("node.token_file", "", {0, 4096},
                  "file with the cluster token that every client must know",
                  into(options.token_file))
      .add_bool("node.insecure", false, "listen beyond loopback although no token is asked for",
                into(options.insecure))
      .add_bool("node.http_open", false,
                "let other hosts read metrics: node.http has no access control",
                into(options.http_open))
      .add_bool("node.share_memory", true, "let clients of this host map the segments, read-only",
                into(options.share_memory))
      .add_string("node.meta", "memory://", {1, 1024}, "metadata service", into(options.meta))
      .add_u64("node.reactors", 0, {0, 64}, "network threads; 0: half of the cores",
               into(options.reactors))
      .add_u64("node.connections_max", 1024, {1, 65536}, "connections served at a time",
               into(options.connections_max));
}

void add_time_keys(env::ConfigSchema& schema, NodeOptions& options) {
  using env::into;
  schema
      .add_duration("node.spin", "200us", {std::chrono::nanoseconds(0), milliseconds(100)},
                    "how long a network thread polls after work before it sleeps",
                    into(options.spin))
      .add_duration("node.stop_timeout", "10s", {milliseconds(1), hours(1)},
                    "how long a stop waits for calls in progress", into(options.stop_timeout))
      .add_duration("node.stall_timeout", "30s", {milliseconds(10), hours(1)},
                    "a put or answer that makes no progress for this long is given up, and the "
                    "space reserved for it is free again",
                    into(options.stall_timeout))
      .add_duration("node.handshake_timeout", "5s", {milliseconds(10), hours(1)},
                    "how long a new connection may take to say who it is",
                    into(options.handshake_timeout))
      .add_duration("node.lease", "30s", {seconds(1), hours(24)},
                    "how long the metadata service believes in this node without a heartbeat",
                    into(options.lease));
}

void add_hot_keys(env::ConfigSchema& schema, NodeOptions& options) {
  using env::into;
  schema
      .add_size("hot.capacity", "4GiB", {1ULL << 20, 64ULL << 40}, "DRAM for values",
                into(options.hot_capacity))
      .add_enum("hot.pages", "auto", {"auto", "4k", "thp", "2m"},
                "page size of the segments: auto takes the largest that needs no set-up",
                into(options.hot_pages))
      .add_bool("hot.populate", true, "touch all memory at the start rather than at first use",
                into(options.hot_populate))
      .add_ratio("hot.high_watermark", "0.90", {0.01, 1.0}, "eviction starts above this share",
                 into(options.hot_high_watermark))
      .add_ratio("hot.low_watermark", "0.80", {0.01, 1.0}, "and stops at this one",
                 into(options.hot_low_watermark))
      .add_u64("hot.objects_max", 0, {0, 1ULL << 28},
               "objects at a time; 0: one per 4 KiB of capacity, at least 65536",
               into(options.hot_objects_max))
      .add_enum("log.level", "info", {"trace", "debug", "info", "warn", "error", "off"},
                "least severe lines to log", into(options.log_level))
      .add_enum("log.format", "logfmt", {"logfmt", "json"}, "form of log lines",
                into(options.log_format));
}

}  // namespace

env::ConfigSchema node_schema(NodeOptions& options) {
  env::ConfigSchema schema;
  add_node_keys(schema, options);
  add_time_keys(schema, options);
  add_hot_keys(schema, options);
  add_cold_keys(schema, options.cold);
  return schema;
}

Result<NodeOptions> default_node_options() {
  NodeOptions options;
  LARDER_TRY(env::Config::create(node_schema(options)));
  return options;
}

Result<void> validate(const NodeOptions& options) {
  if (options.hot_low_watermark > options.hot_high_watermark) {
    return fail(Code::kInvalidArgument, "hot.low_watermark must not be above hot.high_watermark");
  }
  LARDER_TRY(cold_options(options.cold));
  LARDER_TRY(cold_disks(options.cold));
  if (!options.http.empty()) {
    LARDER_ASSIGN(const env::SocketAddress address, env::SocketAddress::parse(options.http));
    if (!address.is_loopback() && !options.http_open) {
      return fail(Code::kInvalidArgument,
                  "node.http: " + options.http +
                      " can be reached from other hosts and asks nobody "
                      "who they are; set node.http_open: true if that is meant");
    }
  }
  for (const std::string& text : options.listen) {
    LARDER_ASSIGN(const env::SocketAddress address, env::SocketAddress::parse(text));
    if (address.kind != env::SocketAddress::Kind::kTcp) {
      return fail(Code::kInvalidArgument,
                  "node.listen takes HOST:PORT; the Unix socket is node.socket");
    }
    if (!address.is_loopback() && options.token_file.empty() && !options.insecure) {
      return fail(Code::kInvalidArgument,
                  "node.listen: " + text +
                      " can be reached from other hosts; give node.token_file, "
                      "or node.insecure: true if anyone may read and write");
    }
  }
  return {};
}

}  // namespace larder::node
