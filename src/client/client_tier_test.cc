// SPDX-License-Identifier: Apache-2.0
// What stat says of the tier, by a node that has values in all of them.
#include <gtest/gtest.h>

#include "env/temp_directory.h"
#include "larder.pb.h"
#include "larder/client.h"
#include "rpc/server.h"
#include "wire/message.h"

namespace larder::client {
namespace {

// Answers info, and stat as it is told.
class StatService final : public rpc::Service {
 public:
  std::unique_ptr<rpc::Session> open_session(const rpc::Peer& peer) override;
  std::vector<int> shared_descriptors() override { return {}; }
  Result<std::pair<std::uint64_t, std::shared_ptr<void>>> adopt_buffer(env::Fd,
                                                                       std::uint64_t) override {
    return fail(Code::kUnsupported, "no memory is shared");
  }
  pb::StatReply stat;  // set before a call
};

class StatSession final : public rpc::Session {
 public:
  explicit StatSession(StatService& service) : service_(service) {}
  rpc::Intake on_request(const wire::FrameHeader& header, std::string_view body) override {
    rpc::Intake intake;
    intake.reply.emplace();
    intake.reply->frame = header.op == wire::Op::kStat ? wire::frame_with(service_.stat)
                                                       : wire::frame_with(pb::InfoReply());
    return intake;
  }
  rpc::Reply on_payload_end(const wire::FrameHeader& header) override { return {}; }

 private:
  StatService& service_;
};

std::unique_ptr<rpc::Session> StatService::open_session(const rpc::Peer& peer) {
  return std::make_unique<StatSession>(*this);
}

TEST(ClientTier, StatSaysWhereAValueIs) {
  const auto dir = env::TempDirectory::create("larder-tier").value();
  StatService service;
  rpc::ServerOptions server_options;
  server_options.listen = {env::SocketAddress::parse("unix:" + dir.path() + "/s").value()};
  const auto server =
      rpc::Server::create(std::move(server_options), service, env::system_clock()).value();
  ClientOptions options;
  options.address = server->addresses()[0].to_string();
  options.path = Path::kUnixSocket;
  const auto client = Client::connect(options).value();
  const std::vector<std::string_view> keys = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    service.stat.add_codes(0);
    service.stat.add_sizes(1);
    service.stat.add_versions(1);
    service.stat.add_checksums(1);
    service.stat.add_pins(0);
  }
  const auto tiers = [&] {
    std::string all;
    const auto results = client->stat(keys);
    for (const StatResult& result : *results) all += result.info.tier + " ";
    return all;
  };
  EXPECT_EQ(tiers(), "hot hot hot hot ");  // by a node that does not say
  for (const std::uint32_t tier : {0, 1, 2, 3}) service.stat.add_tiers(tier);
  EXPECT_EQ(tiers(), "hot cold hot+cold unknown ");
}

}  // namespace
}  // namespace larder::client
