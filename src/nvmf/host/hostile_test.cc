// SPDX-License-Identifier: Apache-2.0
// What a target may do to a host: every broken rule ends the connection with its name, and no
// memory is touched afterwards.
#include <gtest/gtest.h>

#include <cerrno>

#include "nvmf/host/hostile_testing.h"

namespace larder::nvmf {
namespace {

using block::BlockDone;
using block::OpKind;
using Sabotage = std::function<void(FakeConnection&, const Command&)>;

constexpr std::uint32_t kBytes = Victim::kBytes;

class HostileTarget : public testing::Test {
 protected:
  void SetUp() override { descriptors_ = open_descriptors(); }
  void TearDown() override { EXPECT_EQ(open_descriptors(), descriptors_); }

  // `sabotage` answers the first read or write; what it sends after that goes nowhere.
  void expect_broken(OpKind kind, const Sabotage& sabotage, const char* part,
                     const FakeSelf& self = {}, bool digests = false, bool small = false) {
    FakeTarget target(self);
    target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
      if (pdu.command().opcode == kFabricsOpcode) return false;
      sabotage(at, pdu.command());
      at.wait_for_end();
      const std::vector<std::byte> late(kBytes, std::byte{0xBB});
      static_cast<void>(env::send_all(at.descriptor(), late, env::monotonic_now()));
      return true;
    });
    Victim victim(target, Reattach::kNever, digests);
    const BlockDone done = kind == OpKind::kRead ? victim.read()
                           : small               ? victim.write_small()
                                                 : victim.write();
    victim.expect_broken(done, part);
    EXPECT_FALSE(victim.queue->submit(block::BlockOp::flush()));
    victim.queue.reset();
    EXPECT_TRUE(victim.untouched());
  }
  static std::span<const std::byte> bytes(std::size_t count) {
    static const std::vector<std::byte> all(kBytes, std::byte{0xCC});
    return std::span(all).first(count);
  }
  template <class T>
  static void raw(FakeConnection& at, const T& pdu) {
    at.send_raw(std::as_bytes(std::span(&pdu, 1)));
  }

  std::size_t descriptors_ = 0;
};

TEST_F(HostileTarget, DataOfReadsFollowTheRules) {
  const auto read = [this](const Sabotage& sabotage, const char* part) {
    expect_broken(OpKind::kRead, sabotage, part);
  };
  read([](auto& at, auto& c) { at.data(c.cid ^ 1, 0, bytes(4096), 0); }, "no command");
  read([](auto& at, auto& c) { at.data(c.cid ^ 0x8000, 0, bytes(4096), 0); }, "no command");
  read([](auto& at, auto& c) { at.data(c.cid, 4096, bytes(4096), 0); }, "go on");
  read(
      [](auto& at, auto& c) {
        at.data(c.cid, 0, bytes(4096), 0);
        at.data(c.cid, 0, bytes(4096), 0);
      },
      "go on");
  read(
      [](auto& at, auto& c) {
        at.data(c.cid, 0, bytes(kBytes), 0);
        at.data(c.cid, kBytes, bytes(4096), kFlagLast);
      },
      "beyond");
  read(
      [](auto& at, auto& c) {
        at.data(c.cid, 0, bytes(4096), kFlagLast);
        at.data(c.cid, 4096, bytes(4096), kFlagLast);
      },
      "after the last");
  read([](auto& at, auto& c) { at.respond(c.cid); }, "all of its data");
  read([](auto& at, auto& c) { at.data(c.cid, 0, bytes(4096), kFlagLast | kFlagSuccess); },
       "all of its data");
  read([](auto& at, auto& c) { at.data(c.cid, 0, bytes(kBytes), kFlagSuccess); }, "");
  read([](auto& at, auto& c) { at.r2t(c.cid, 1, 0, 4096); }, "no data to send");
}

TEST_F(HostileTarget, SuccessNeedsThatFlowControlIsOff) {
  FakeSelf self;
  self.sq_flow_off = false;
  expect_broken(
      OpKind::kRead,
      [](auto& at, auto& c) { at.data(c.cid, 0, bytes(kBytes), kFlagLast | kFlagSuccess); },
      "SUCCESS", self);
}

TEST_F(HostileTarget, DataOfWritesAreAskedForByTheRules) {
  const auto write = [this](const Sabotage& sabotage, const char* part, bool small = false) {
    expect_broken(OpKind::kWrite, sabotage, part, {}, false, small);
  };
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, 0, kBytes + 4096); }, "beyond");
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, kBytes, 4096); }, "");
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, 0, ~0U); }, "");
  write(
      [](auto& at, auto& c) {
        at.r2t(c.cid, 1, 0, 4096);
        at.r2t(c.cid, 2, 0, 4096);
      },
      "go on");
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, 4096, 4096); }, "go on");
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, 0, 0); }, "");
  write([](auto& at, auto& c) { at.r2t(c.cid ^ 1, 1, 0, 4096); }, "no command");
  write([](auto& at, auto& c) { at.respond(c.cid); }, "all of its data");
  write([](auto& at, auto& c) { at.data(c.cid, 0, bytes(4096), kFlagLast); }, "reads nothing");
  write([](auto& at, auto& c) { at.r2t(c.cid, 1, 0, 4096); }, "no data to send", true);
  write(
      [](auto& at, auto& c) {
        std::vector<std::byte> all;
        for (std::uint32_t i = 0; i <= kMaxR2t + 1; ++i) {
          R2t pdu;
          pdu.cccid = c.cid;
          pdu.r2to = i * 4096;
          pdu.r2tl = 4096;
          const auto one = at.bytes_of(pdu, 0, {});
          all.insert(all.end(), one.begin(), one.end());
        }
        at.send_raw(all);
      },
      "MAXR2T");
}

TEST_F(HostileTarget, PdusHaveTheirForm) {
  const auto broken = [this](PduHeader header) {
    SCOPED_TRACE(static_cast<unsigned>(header.type));
    expect_broken(
        OpKind::kRead,
        [header](auto& at, auto&) {
          std::array<std::byte, 128> pdu{};
          std::memcpy(pdu.data(), &header, sizeof(header));
          at.send_raw(pdu);
        },
        "broke the protocol");
  };
  broken({static_cast<PduType>(0x55), 0, 24, 0, 24});
  broken({PduType::kH2cData, 0, 24, 24, 24});
  broken({PduType::kCapsuleCmd, 0, 72, 0, 72});
  broken({PduType::kIcResp, 0, 128, 0, 128});
  broken({PduType::kCapsuleResp, 0, 25, 0, 25});
  broken({PduType::kCapsuleResp, 0, 24, 0, 23});
  broken({PduType::kCapsuleResp, 0, 24, 0, 4096});
  broken({PduType::kCapsuleResp, kFlagHeaderDigest, 24, 0, 28});
  broken({PduType::kC2hData, 0, 24, 8, 4096});
  broken({PduType::kC2hData, 0, 24, 255, 4096});
  broken({PduType::kC2hData, 0, 24, 24, ~0U});
  broken({PduType::kC2hData, kFlagDataDigest, 24, 24, 64});
  broken({PduType::kR2t, 0, 24, 24, 64});
  broken({PduType::kR2t, 0, 0, 0, 0});
}

TEST_F(HostileTarget, WhatItComplainsOfIsTold) {
  expect_broken(
      OpKind::kRead,
      [](auto& at, auto&) {
        std::array<std::byte, kTermBytesMax> term;
        const PduFault fault{FatalStatus::kOutOfRange, 0, PduType::kCapsuleCmd, ""};
        const std::size_t size = encode_term(Direction::kToHost, fault, {}, term);
        at.send_raw(std::span(term).first(size));
      },
      "ended the connection");
}

TEST_F(HostileTarget, HeaderDigestsAreVerified) {
  expect_broken(
      OpKind::kRead,
      [](auto& at, auto& c) {
        CapsuleResp pdu;
        pdu.completion.cid = c.cid;
        auto whole = at.bytes_of(pdu, 0, {});
        whole[12] ^= std::byte{1};
        at.send_raw(whole);
      },
      "digest", {}, true);
}

TEST_F(HostileTarget, ACompletionCountsOnce) {
  FakeTarget target;
  target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
    if (pdu.command().opcode != static_cast<std::uint8_t>(IoOpcode::kWrite)) return false;
    at.respond(pdu.command().cid);
    at.respond(pdu.command().cid);
    return true;
  });
  Victim victim(target);
  EXPECT_EQ(victim.write_small().code, Code::kOk);
  victim.expect_broken(victim.read(), "no command that is in flight");
}

// ---- cuts

class Cut : public HostileTarget {
 protected:
  // The connection ends after `count` bytes of what `whole` makes.
  template <class Make>
  void cut_at(OpKind kind, std::size_t count, Make&& make, bool digests) {
    SCOPED_TRACE(count);
    expect_broken(
        kind,
        [&](FakeConnection& at, const Command& command) {
          std::vector<std::byte> whole = make(at, command);
          whole.resize(std::min(count, whole.size()));
          at.send_raw(whole);
          at.close();
        },
        "closed the connection", {}, digests);
  }
};

TEST_F(Cut, InsideOfEveryPdu) {
  const auto data = [](FakeConnection& at, const Command& command) {
    C2hData pdu;
    pdu.cccid = command.cid;
    pdu.datal = kBytes;
    return at.bytes_of(pdu, kFlagLast, bytes(kBytes));
  };
  const auto response = [](FakeConnection& at, const Command& command) {
    CapsuleResp pdu;
    pdu.completion.cid = command.cid;
    return at.bytes_of(pdu, 0, {});
  };
  const auto r2t = [](FakeConnection& at, const Command& command) {
    R2t pdu;
    pdu.cccid = command.cid;
    pdu.r2tl = kBytes;
    return at.bytes_of(pdu, 0, {});
  };
  for (const bool digests : {false, true}) {
    const std::size_t head = digests ? 28 : 24;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                                    std::size_t{12}, head - 1}) {
      cut_at(OpKind::kRead, count, data, digests);
      cut_at(OpKind::kRead, count, response, digests);
      cut_at(OpKind::kWrite, count, r2t, digests);
    }
    for (const std::size_t count :
         {head, head + 1, head + 4096, head + kBytes - 1, head + kBytes}) {
      cut_at(OpKind::kRead, count, data, digests);
    }
    cut_at(OpKind::kWrite, head, r2t, digests);
  }
}

TEST_F(Cut, InsideOfTheHandshake) {
  for (const std::size_t count : {0U, 1U, 8U, 64U, 127U}) {
    FakeTarget target;
    target.on_handshake([count](FakeConnection& at, const FakePdu&) {
      IcResp answer;
      answer.maxh2cdata = 8192;
      const auto whole = at.bytes_of(answer, 0, {});
      at.send_raw(std::span(whole).first(count));
      return true;
    });
    const auto device = NvmeDevice::open(target.options());
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code(), Code::kUnavailable) << device.error().to_string();
  }
}

TEST_F(Cut, AfterAnyAdminCommand) {
  for (int last = 0; last < 12; ++last) {
    FakeTarget target;
    std::atomic<int> count{0};
    std::atomic<bool> cut{false};
    target.on_admin([&](FakeConnection& at, const FakePdu&) {
      if (count++ != last) return false;
      cut = true;
      at.close();
      return true;
    });
    NvmeDeviceOptions options = target.options();
    options.reattach = Reattach::kNever;
    const auto device = NvmeDevice::open(options);
    if (device || !cut) continue;
    EXPECT_EQ(device.error().code(), Code::kUnavailable) << device.error().to_string();
  }
}

// ---- a target that is not there any more, or hardly

TEST_F(HostileTarget, ASilentTargetIsGivenUp) {
  FakeTarget target;
  target.on_io(
      [](FakeConnection&, const FakePdu& pdu) { return pdu.command().opcode != kFabricsOpcode; });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kNever, false);
  options.io_timeout = 100 * env::kMilli;
  Victim victim(options);
  const BlockDone done = victim.read();
  EXPECT_EQ(done.sys_errno, ETIMEDOUT);
  victim.expect_broken(done, "in time");
}

TEST_F(HostileTarget, SoIsOneThatIsEndlesslySlow) {
  FakeTarget target;
  target.on_io([](FakeConnection& at, const FakePdu& pdu) {
    if (pdu.command().opcode == kFabricsOpcode) return false;
    C2hData head;
    head.cccid = pdu.command().cid;
    head.datal = kBytes;
    const auto whole = at.bytes_of(head, kFlagLast, bytes(kBytes));
    for (const std::byte& byte : whole) {
      pollfd hung{at.descriptor(), POLLRDHUP, 0};
      if (::poll(&hung, 1, 2) != 0) break;
      if (!at.send_raw({&byte, 1})) break;
    }
    return true;
  });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kNever, false);
  options.io_timeout = 200 * env::kMilli;
  Victim victim(options);
  const BlockDone done = victim.read();
  EXPECT_EQ(done.sys_errno, ETIMEDOUT);
  victim.expect_broken(done, "in time");
}

TEST_F(HostileTarget, KeepAlivesAreMissed) {
  FakeTarget target;
  target.on_admin([](FakeConnection&, const FakePdu& pdu) {
    return pdu.command().opcode == static_cast<std::uint8_t>(AdminOpcode::kKeepAlive);
  });
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kNever, false);
  options.keep_alive = 100 * env::kMilli;
  Victim victim(options);
  ASSERT_TRUE(
      eventually([&] { return victim.device->health().state == block::HealthState::kFailed; }));
  EXPECT_NE(victim.device->health().reason.find("keep-alive"), std::string::npos);
  EXPECT_EQ(victim.device->nvme_stats().keep_alive_misses, 1U);
}

TEST_F(HostileTarget, KeepAlivesAreSent) {
  FakeTarget target;
  NvmeDeviceOptions options = Victim::options_of(target, Reattach::kNever, false);
  options.keep_alive = 40 * env::kMilli;
  Victim victim(options);
  ASSERT_TRUE(eventually([&] { return target.keep_alives >= 3; }));
  EXPECT_EQ(victim.read().code, Code::kOk);
}

// ---- damage that is no broken rule

TEST_F(HostileTarget, DamagedDataAreReadAgain) {
  FakeTarget target;
  std::atomic<int> damaged{1};
  target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
    if (pdu.command().opcode != static_cast<std::uint8_t>(IoOpcode::kRead)) return false;
    if (damaged-- <= 0) return false;
    at.data(pdu.command().cid, 0, bytes(kBytes), kFlagLast | kFlagSuccess, true);
    return true;
  });
  Victim victim(target, Reattach::kNever, true);
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_TRUE(block::all_are(victim.memory.span(), std::byte{0}));
  EXPECT_EQ(victim.device->nvme_stats().digest_errors, 1U);
  damaged = 100;
  const BlockDone done = victim.read();
  EXPECT_EQ(done.code, Code::kUnavailable);
  EXPECT_EQ(done.sys_errno, EIO);
  damaged = 0;
  EXPECT_EQ(victim.read().code, Code::kOk);
  EXPECT_EQ(victim.device->nvme_stats().lost, 0U);
}

TEST_F(HostileTarget, ErrorsOfCommandsAreTheirOwn) {
  FakeTarget target;
  std::atomic<std::uint16_t> status{0};
  target.on_io([&](FakeConnection& at, const FakePdu& pdu) {
    if (pdu.command().opcode == kFabricsOpcode || status == 0) return false;
    at.respond(pdu.command().cid, Status::from_bits(status));
    return true;
  });
  Victim victim(target);
  const auto answer = [&](Status with) {
    status = with.bits();
    const BlockDone done = victim.write_small();
    status = 0;
    EXPECT_EQ(victim.read().code, Code::kOk);
    return done;
  };
  EXPECT_EQ(answer(refused(Sc::kLbaOutOfRange)).code, Code::kConflict);
  EXPECT_EQ(answer(refused(Sc::kInvalidNamespace)).code, Code::kConflict);
  EXPECT_EQ(answer(failed(Sc::kCapacityExceeded)).code, Code::kExhausted);
  EXPECT_EQ(answer(refused(Sc::kWriteFault)).sys_errno, EIO);
  EXPECT_EQ(answer(refused(Sc::kNamespaceWriteProtected)).sys_errno, EROFS);
  EXPECT_EQ(answer(failed(Sc::kNamespaceNotReady)).code, Code::kUnavailable);
  EXPECT_EQ(victim.device->nvme_stats().lost, 0U);
}

}  // namespace
}  // namespace larder::nvmf
