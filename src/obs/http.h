// SPDX-License-Identifier: Apache-2.0
// A small read-only HTTP server for people and scrapers: /healthz, /metrics, /v1/stats and a page.
//
// GET and HEAD only; anything else is 405. It is for numbers, not for objects: there is no
// authentication, so it binds to loopback unless told otherwise, and what it shows must not be
// secret. Requests are bounded in size and time; connections wait in the kernel's backlog when all
// threads are busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "larder/status.h"
#include "obs/metrics.h"

namespace larder::obs {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Called from the server's threads, several at once. One that throws answers 500.
using HttpHandler = std::function<HttpReply()>;

struct HttpRoute {
  std::string path;  // exact, "/metrics"
  HttpHandler handler;
};

struct HttpOptions {
  std::string bind_address = "127.0.0.1";  // numeric IPv4 or IPv6, or "localhost"
  std::uint16_t port = 0;                  // 0: any free one, see port()
  unsigned threads = 2;                    // 1..64; a kept-alive connection holds one for 1 s
};

inline constexpr std::size_t kHttpRoutesMax = 64;

class HttpServer {
 public:
  // Listening when it returns. kInvalidArgument: options or routes that cannot work.
  // kUnavailable: the address is taken or not of this host; the message says which and what to do.
  static Result<std::unique_ptr<HttpServer>> create(HttpOptions options,
                                                    std::vector<HttpRoute> routes);
  // Stops listening, then waits for requests in progress (3 s at worst for a silent peer).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const noexcept;
  // "http://127.0.0.1:7412"
  std::string url() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct DashboardOptions {
  std::string title = "Larder";  // shown on the page
  // Metric names whose totals head the page, in order. Empty: the first gauges and rates.
  std::vector<std::string> highlights;
};

// The four standard routes. `registry` must outlive the server. `not_ready` answers why the node
// cannot serve yet (503), or an empty string when it can (200).
std::vector<HttpRoute> standard_routes(const Registry& registry,
                                       std::function<std::string()> not_ready,
                                       const DashboardOptions& dashboard = {});

// The page at "/": one self-contained document that polls /v1/stats and /healthz each second.
std::string dashboard_html(const DashboardOptions& options);

}  // namespace larder::obs
