// SPDX-License-Identifier: Apache-2.0
// cpp-httplib stays inside this file.
#include "obs/http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "base/units.h"

namespace larder::obs {
namespace {

constexpr std::size_t kRequestBodyBytesMax = 4096;  // nobody has a reason to send one
constexpr std::size_t kKeepAliveRequestsMax = 32;
constexpr time_t kKeepAliveSeconds = 1;
constexpr time_t kReadSeconds = 2;
constexpr time_t kWriteSeconds = 5;
constexpr std::size_t kQueuedPerThread = 16;
constexpr unsigned kThreadsMax = 64;

// httplib's own pool queues without a bound. Here a full queue makes the accepting thread wait, so
// that further connections stay in the kernel's backlog, which is bounded too.
class BoundedPool {
 public:
  explicit BoundedPool(unsigned threads) : wanted_(threads), bound_(threads * kQueuedPerThread) {}
  ~BoundedPool() { shutdown(); }
  BoundedPool(const BoundedPool&) = delete;
  BoundedPool& operator=(const BoundedPool&) = delete;

  // Apart from the constructor so that the destructor joins what was started when one fails.
  void start() {
    for (unsigned i = 0; i < wanted_; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return tasks_.size() < bound_ || stopping_; });
    tasks_.push_back(std::move(task));
    more_.notify_one();
  }

  // No enqueue() waits any more.
  void stop_waiting() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    room_.notify_all();
  }

  // Runs what is queued, then joins. Harmless when repeated.
  void shutdown() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      more_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void work() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        room_.notify_one();
      }
      task();
    }
  }

  const unsigned wanted_;
  const std::size_t bound_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::condition_variable room_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

// What httplib owns and deletes; the pool itself stays with the server.
class PoolQueue final : public httplib::TaskQueue {
 public:
  explicit PoolQueue(BoundedPool& pool) : pool_(pool) {}
  void enqueue(std::function<void()> task) override { pool_.enqueue(std::move(task)); }
  void shutdown() override { pool_.shutdown(); }

 private:
  BoundedPool& pool_;
};

void set_socket_options(int fd) {
  // Not SO_REUSEPORT, httplib's default: with it a second server on the port would go unnoticed.
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

bool is_numeric_address(const std::string& text) {
  in6_addr any{};
  return ::inet_pton(AF_INET, text.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

std::string endpoint(const std::string& address, unsigned port) {
  const bool v6 = address.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

tl::unexpected<Error> bind_error(const HttpOptions& options, int error) {
  const std::string where = endpoint(options.bind_address, options.port);
  std::string advice = "see that the address and port can be used";
  if (error == EADDRINUSE) advice = "another process has it: choose another port, or 0 for any";
  if (error == EADDRNOTAVAIL) advice = "no interface of this host has that address";
  if (error == EACCES) advice = "choose a port of 1024 or above, or grant CAP_NET_BIND_SERVICE";
  const std::string reason = error != 0 ? std::strerror(error) : "the socket was refused";
  return fail(Code::kUnavailable,
              fmt::format("cannot serve HTTP on {}: {}; {}", where, reason, advice));
}

Result<void> check(const HttpOptions& options, const std::vector<HttpRoute>& routes) {
  if (!is_numeric_address(options.bind_address)) {
    return fail(Code::kInvalidArgument,
                fmt::format("HTTP bind address {} is not a numeric IPv4 or IPv6 address; write "
                            "for example 127.0.0.1, ::1 or 0.0.0.0",
                            base::quoted(options.bind_address)));
  }
  if (options.threads < 1 || options.threads > kThreadsMax) {
    return fail(Code::kInvalidArgument, fmt::format("HTTP threads: {} is not within 1 to {}",
                                                    options.threads, kThreadsMax));
  }
  if (routes.size() > kHttpRoutesMax) {
    return fail(Code::kInvalidArgument, fmt::format("{} HTTP routes exceed the limit of {}",
                                                    routes.size(), kHttpRoutesMax));
  }
  return {};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, std::map<std::string, HttpHandler> routes)
      : options_(std::move(options)), routes_(std::move(routes)), pool_(options_.threads) {}

  ~Impl() {
    pool_.stop_waiting();
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start() {
    set_up();
    errno = 0;
    if (options_.port == 0) {
      const int port = server_.bind_to_any_port(options_.bind_address);
      if (port <= 0) return bind_error(options_, errno);
      options_.port = static_cast<std::uint16_t>(port);
    } else if (!server_.bind_to_port(options_.bind_address, options_.port)) {
      return bind_error(options_, errno);
    }
    pool_.start();
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Before httplib asks for its queue, stop() would be a no-op and the thread would never end.
    started_.get_future().wait();
    return {};
  }

  std::uint16_t port() const { return options_.port; }
  std::string url() const { return "http://" + endpoint(options_.bind_address, options_.port); }

 private:
  void set_up() {
    server_.set_socket_options(set_socket_options);
    server_.set_read_timeout(kReadSeconds);
    server_.set_write_timeout(kWriteSeconds);
    server_.set_keep_alive_timeout(kKeepAliveSeconds);
    server_.set_keep_alive_max_count(kKeepAliveRequestsMax);
    server_.set_payload_max_length(kRequestBodyBytesMax);
    server_.set_tcp_nodelay(true);
    server_.new_task_queue = [this] {
      started_.set_value();
      return new PoolQueue(pool_);  // httplib deletes it
    };
    server_.set_default_headers({{"Cache-Control", "no-store"},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"X-Frame-Options", "DENY"},
                                 {"Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; script-src "
                                  "'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
                                  "form-action 'none'"}});
    const auto get = [this](const httplib::Request& request, httplib::Response& response) {
      answer(request.path, response);
    };
    const auto refuse = [](const httplib::Request&, httplib::Response& response) {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("only GET and HEAD are served here\n", "text/plain");
    };
    server_.Get(".*", get);
    server_.Post(".*", refuse).Put(".*", refuse).Patch(".*", refuse);
    server_.Delete(".*", refuse).Options(".*", refuse);
  }

  void answer(const std::string& path, httplib::Response& response) const {
    const auto route = routes_.find(path);
    if (route == routes_.end()) {
      response.status = 404;
      std::string text = "not found; there is\n";
      for (const auto& [known, handler] : routes_) text += known + '\n';
      response.set_content(text, "text/plain");
      return;
    }
    try {
      const HttpReply reply = route->second();
      response.status = reply.status;
      response.set_content(reply.body, reply.content_type);
    } catch (...) {
      response.status = 500;
      response.set_content("internal error\n", "text/plain");
    }
  }

  HttpOptions options_;
  const std::map<std::string, HttpHandler> routes_;
  std::promise<void> started_;
  BoundedPool pool_;
  httplib::Server server_;
  std::thread thread_;
};

Result<std::unique_ptr<HttpServer>> HttpServer::create(HttpOptions options,
                                                       std::vector<HttpRoute> routes) {
  if (options.bind_address == "localhost") options.bind_address = "127.0.0.1";
  LARDER_TRY(check(options, routes));
  std::map<std::string, HttpHandler> table;
  for (HttpRoute& route : routes) {
    const bool usable = route.path.starts_with('/') && route.handler != nullptr;
    if (!usable || !table.emplace(route.path, std::move(route.handler)).second) {
      return fail(Code::kInvalidArgument,
                  fmt::format("HTTP route {} does not start with '/', has no handler, or is given "
                              "twice",
                              base::quoted(route.path)));
    }
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(options), std::move(table));
    LARDER_TRY(impl->start());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& e) {  // no threads left
    return fail(Code::kExhausted, fmt::format("cannot start the HTTP server: {}", e.what()));
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const noexcept {
  return impl_->port();
}
std::string HttpServer::url() const {
  return impl_->url();
}

std::vector<HttpRoute> standard_routes(const Registry& registry,
                                       std::function<std::string()> not_ready,
                                       const DashboardOptions& dashboard) {
  const auto healthz = [not_ready = std::move(not_ready)] {
    const std::string why = not_ready ? not_ready() : std::string();
    if (why.empty()) return HttpReply{.body = "ready\n"};
    return HttpReply{.status = 503, .body = why + '\n'};
  };
  const auto metrics = [&registry] {
    return HttpReply{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                     .body = registry.text()};
  };
  const auto stats = [&registry] {
    return HttpReply{.content_type = "application/json", .body = registry.stats_json()};
  };
  const auto page = [html = dashboard_html(dashboard)] {
    return HttpReply{.content_type = "text/html; charset=utf-8", .body = html};
  };
  return {{"/", page}, {"/healthz", healthz}, {"/metrics", metrics}, {"/v1/stats", stats}};
}

}  // namespace larder::obs
