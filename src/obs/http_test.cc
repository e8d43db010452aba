// SPDX-License-Identifier: Apache-2.0
#include "obs/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

namespace larder::obs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<HttpServer> serve(std::vector<HttpRoute> routes, HttpOptions options = {}) {
  auto server = HttpServer::create(std::move(options), std::move(routes));
  EXPECT_TRUE(server) << server.error().to_string();
  return server ? std::move(*server) : nullptr;
}

httplib::Client client_of(const HttpServer& server) {
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(10);
  return client;
}

TEST(HttpTest, StandardRoutes) {
  Registry registry;
  (*registry.counter("larder_get_total", "gets"))->add(42);
  std::atomic<bool> ready{false};
  const auto server = serve(standard_routes(
      registry, [&ready] { return ready ? std::string() : std::string("joining"); }));
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->url(), "http://127.0.0.1:" + std::to_string(server->port()));
  auto client = client_of(*server);

  auto health = client.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 503);
  EXPECT_EQ(health->body, "joining\n");
  ready = true;
  health = client.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);

  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(metrics->body, HasSubstr("larder_get_total 42\n"));

  const auto stats = client.Get("/v1/stats");
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->get_header_value("Content-Type"), "application/json");
  const auto parsed = nlohmann::json::parse(stats->body);
  EXPECT_EQ(parsed["larder_get_total"]["series"][0]["value"], 42);
}

TEST(HttpTest, PageIsSelfContained) {
  Registry registry;
  const auto server = serve(standard_routes(
      registry, nullptr, {.title = "<b>\"node\" & co", .highlights = {"ok_total", "</script>"}}));
  ASSERT_NE(server, nullptr);
  const auto page = client_of(*server).Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page->body, HasSubstr("<h1>&lt;b&gt;&quot;node&quot; &amp; co</h1>"));
  EXPECT_THAT(page->body, HasSubstr("highlights=[\"ok_total\"];"));
  EXPECT_THAT(page->body, HasSubstr("href=\"/v1/stats\""));
  EXPECT_THAT(page->body, Not(HasSubstr("src=")));
  EXPECT_THAT(page->body, Not(HasSubstr("@TITLE@")));
}

TEST(HttpTest, OnlyGetAndHead) {
  std::atomic<int> calls{0};
  const auto server = serve({{"/x", [&calls] {
                                ++calls;
                                return HttpReply{.body = "hello"};
                              }}});
  ASSERT_NE(server, nullptr);
  auto client = client_of(*server);
  const auto head = client.Head("/x");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(head->get_header_value("Content-Length"), "5");
  EXPECT_EQ(calls, 1);
  for (const auto& result :
       {client.Post("/x", "body", "text/plain"), client.Put("/x", "body", "text/plain"),
        client.Patch("/x", "body", "text/plain"), client.Delete("/x"), client.Options("/x")}) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 405);
    EXPECT_EQ(result->get_header_value("Allow"), "GET, HEAD");
  }
  EXPECT_EQ(calls, 1);
}

TEST(HttpTest, BadRequestsAreAnsweredNotServed) {
  const auto server =
      serve({{"/x", [] { return HttpReply{.body = "hello"}; }},
             {"/throws", []() -> HttpReply { throw std::runtime_error("secret"); }}});
  ASSERT_NE(server, nullptr);
  auto client = client_of(*server);
  const auto missing = client.Get("/../etc/passwd");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status, 404);
  EXPECT_THAT(missing->body, HasSubstr("/x\n"));
  const auto broken = client.Get("/throws");
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->status, 500);
  EXPECT_THAT(broken->body, Not(HasSubstr("secret")));
  const auto large = client_of(*server).Post("/x", std::string(1 << 20, 'x'), "text/plain");
  if (large) {
    EXPECT_EQ(large->status, 413);
  }
  const auto long_path = client_of(*server).Get("/" + std::string(10000, 'a'));
  if (long_path) {
    EXPECT_GE(long_path->status, 400);
  }
  const auto query = client_of(*server).Get("/x?a=b");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->status, 200);
}

TEST(HttpTest, TakenPortSaysWhatToDo) {
  const auto first = serve({});
  ASSERT_NE(first, nullptr);
  const auto second = HttpServer::create({.port = first->port()}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_THAT(second.error().message(),
              HasSubstr("127.0.0.1:" + std::to_string(first->port()) + ": Address already in use"));
  EXPECT_THAT(second.error().message(), HasSubstr("choose another port"));
}

TEST(HttpTest, OptionsAreChecked) {
  const HttpHandler ok = [] { return HttpReply{}; };
  for (const char* address : {"", "example.com", "1.2.3", "127.0.0.1:80", "127.0.0.1\n"}) {
    const auto server = HttpServer::create({.bind_address = address}, {});
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().code(), Code::kInvalidArgument);
  }
  const auto elsewhere = HttpServer::create({.bind_address = "192.0.2.1"}, {});
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message(), HasSubstr("192.0.2.1"));
  EXPECT_FALSE(HttpServer::create({.threads = 0}, {}));
  EXPECT_FALSE(HttpServer::create({.threads = 65}, {}));
  EXPECT_FALSE(HttpServer::create({}, {{"x", ok}}));
  EXPECT_FALSE(HttpServer::create({}, {{"/x", nullptr}}));
  EXPECT_FALSE(HttpServer::create({}, {{"/x", ok}, {"/x", ok}}));
  EXPECT_TRUE(HttpServer::create({.bind_address = "localhost"}, {{"/x", ok}}));
}

TEST(HttpTest, StopsAtOnceAndFreesThePort) {
  std::uint16_t port = 0;
  for (int i = 0; i < 20; ++i) {
    const auto server = serve({{"/", [] { return HttpReply{.body = "x"}; }}}, {.port = port});
    ASSERT_NE(server, nullptr);
    port = server->port();
    if (i % 5 == 0) {
      ASSERT_TRUE(client_of(*server).Get("/"));
    }
  }
}

TEST(HttpTest, ManyClientsAtOnce) {
  std::atomic<int> calls{0};
  const auto server = serve({{"/", [&calls] {
                                ++calls;
                                return HttpReply{.body = "x"};
                              }}});
  ASSERT_NE(server, nullptr);
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto result = client_of(*server).Get("/");
        if (result && result->status == 200) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 80);
  EXPECT_EQ(calls, 80);
}

}  // namespace
}  // namespace larder::obs
