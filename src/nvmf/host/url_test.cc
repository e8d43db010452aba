// SPDX-License-Identifier: Apache-2.0
#include "nvmf/host/url.h"

#include <gtest/gtest.h>

namespace larder::nvmf {
namespace {

constexpr const char* kNqn = "nqn.2024-01.org.example:disk";

NvmeUrl parsed(const std::string& text) {
  auto url = parse_nvme_url(text);
  EXPECT_TRUE(url) << text << ": " << (url ? "" : url.error().to_string());
  return url ? *url : NvmeUrl();
}

TEST(NvmeUrl, PartsAreFound) {
  const NvmeUrl url = parsed("nvme-tcp://store7:5000/" + std::string(kNqn) + "#3");
  EXPECT_EQ(url.host, "store7");
  EXPECT_EQ(url.port, 5000);
  EXPECT_EQ(url.nqn, kNqn);
  EXPECT_EQ(url.nsid, 3U);
  EXPECT_FALSE(url.header_digest);
}

TEST(NvmeUrl, PortAndNamespaceMayBeLeftOut) {
  const NvmeUrl url = parsed("nvme-tcp://10.0.0.7/" + std::string(kNqn));
  EXPECT_EQ(url.port, kPortDefault);
  EXPECT_FALSE(url.nsid);
  const NvmeUrl discovery = parsed("nvme-tcp://[::1]");
  EXPECT_EQ(discovery.host, "::1");
  EXPECT_TRUE(discovery.nqn.empty());
  EXPECT_EQ(parsed("nvme-tcp://[fe80::2]:77/").port, 77);
}

TEST(NvmeUrl, OptionsAreRead) {
  const NvmeUrl url =
      parsed("nvme-tcp://h/" + std::string(kNqn) +
             "?hdgst=1&ddgst=true&queues=4&io_timeout=5s&keep_alive=0&host_nqn=nqn.2020-01.a:b#2");
  EXPECT_TRUE(url.header_digest);
  EXPECT_TRUE(url.data_digest);
  EXPECT_EQ(url.queues, 4);
  EXPECT_EQ(url.io_timeout, 5 * env::kSecond);
  EXPECT_EQ(url.keep_alive, 0);
  EXPECT_EQ(url.host_nqn, "nqn.2020-01.a:b");
  EXPECT_EQ(url.nsid, 2U);
}

TEST(NvmeUrl, WritesWhatItReads) {
  for (const std::string text :
       {"nvme-tcp://h:4420", "nvme-tcp://[::1]:4420/nqn.2024-01.org.example:a%3Fb%23c%25d#9",
        "nvme-tcp://h:1/nqn.2024-01.org.example:x?hdgst=1&ddgst=1&queues=2&io_timeout=10ms"
        "&keep_alive=15s&host_nqn=nqn.2020-01.a:b#7"}) {
    EXPECT_EQ(parsed(text).to_string(), text);
    EXPECT_EQ(parsed(parsed(text).to_string()), parsed(text));
  }
}

TEST(NvmeUrl, WhatIsWrongIsNamed) {
  const std::string good = std::string("nvme-tcp://h/") + kNqn;
  const std::pair<std::string, const char*> cases[] = {
      {"nvme-rdma://h/x", "only nvme-tcp://"},
      {"nvme-tcp://", "no host"},
      {"nvme-tcp:///" + std::string(kNqn), "no host"},
      {"nvme-tcp://::1/" + std::string(kNqn), "brackets"},
      {"nvme-tcp://[::1/" + std::string(kNqn), "nvme-tcp"},
      {"nvme-tcp://h:0/" + std::string(kNqn), "port"},
      {"nvme-tcp://h:99999/" + std::string(kNqn), "port"},
      {"nvme-tcp://h/disk", "NQN"},
      {"nvme-tcp://h/nqn.2024-01.org.example:a%2", "hexadecimal"},
      {"nvme-tcp://h#1", "needs the NQN"},
      {good + "#0", "1 to"},
      {good + "#4294967295", "1 to"},
      {good + "#one", "namespace"},
      {good + "?hdgst", "NAME=VALUE"},
      {good + "?hdgst=maybe", "hdgst"},
      {good + "?queues=0", "1 to"},
      {good + "?queues=2000", "1 to"},
      {good + "?io_timeout=0", "some time"},
      {good + "?keep_alive=48h", "day"},
      {good + "?speed=11", "no such option"},
      {std::string("nvme-tcp://") + std::string(3000, 'h'), "longer"},
  };
  for (const auto& [text, part] : cases) {
    const auto url = parse_nvme_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code(), Code::kInvalidArgument);
    EXPECT_NE(url.error().message().find(part), std::string::npos) << url.error().message();
    EXPECT_LT(url.error().message().size(), 700U);
  }
}

TEST(NvmeUrl, PathsAreNone) {
  EXPECT_TRUE(is_nvme_url("nvme-tcp://h/x"));
  EXPECT_TRUE(is_nvme_url("nvme-rdma://h/x"));  // so that the error names what is wrong
  EXPECT_FALSE(is_nvme_url("/dev/nvme0n1"));
  EXPECT_FALSE(is_nvme_url("nvme"));
}

}  // namespace
}  // namespace larder::nvmf
