// SPDX-License-Identifier: Apache-2.0
// A small NVMe/TCP target in threads of the test, honest unless a test tells it otherwise.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "block/block_testing.h"
#include "nvmf/host/device.h"
#include "nvmf/host/fake_self_testing.h"
#include "nvmf/host/waker.h"

namespace larder::nvmf {

class FakeTarget {
 public:
  // By the connection's thread; true: it was dealt with.
  using Hook = std::function<bool(FakeConnection&, const FakePdu&)>;

  explicit FakeTarget(FakeSelf says = {}) : self(std::move(says)), memory(kFakeBlocks * 4096) {
    stop_ = block::take_value(Waker::create());
    listen(0);
    thread_ = std::thread([this] { accept(); });
  }
  ~FakeTarget() {
    stop_.notify();
    thread_.join();
    for (std::thread& thread : connections_) thread.join();
  }

  NvmeUrl url() const {
    NvmeUrl out;
    out.host = "127.0.0.1";
    out.port = port_;
    out.nqn = kFakeNqn;
    return out;
  }
  NvmeDeviceOptions options() const {
    NvmeDeviceOptions out;
    out.url = url();
    out.host.nqn = "nqn.2024-01.org.example:host";
    out.reattach_timeout = 5 * env::kSecond;
    return out;
  }
  // Guarded: hooks come from the test while connections run.
  void on_admin(Hook hook) { set(admin_, std::move(hook)); }
  void on_io(Hook hook) { set(io_, std::move(hook)); }
  void on_handshake(std::function<bool(FakeConnection&, const FakePdu&)> hook) {
    set(handshake_, std::move(hook));
  }
  std::size_t accepted() const { return accepted_; }
  // Completes the event request that is held, if there is one.
  bool event(AsyncEvent event) {
    const std::lock_guard lock(mutex_);
    if (event_connection_ == nullptr) return false;
    event_connection_->respond(event_cid_, {}, event.dw0());
    event_connection_ = nullptr;
    return true;
  }
  bool has_event_request() const {
    const std::lock_guard lock(mutex_);
    return event_connection_ != nullptr;
  }

  FakeSelf self;
  std::vector<std::byte> memory;
  std::atomic<int> keep_alives{0};
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
  std::atomic<int> flushes{0};
  std::atomic<bool> shut_down{false};
  mutable std::mutex self_mutex;  // where a test changes `self` while it is used

  // What an honest one does; for hooks that interfere only at times.
  void serve_io(FakeConnection& at, const FakePdu& pdu);

 private:
  void set(Hook& hook, Hook with) {
    const std::lock_guard lock(mutex_);
    hook = std::move(with);
  }
  Hook get(const Hook& hook) const {
    const std::lock_guard lock(mutex_);
    return hook;
  }
  void listen(std::uint16_t port) {
    listener_ = block::take_value(
        env::listen_on({env::SocketAddress::Kind::kTcp, "127.0.0.1", port, {}}, 64));
    port_ = block::take_value(env::local_port(listener_.get()));
  }
  void accept() {
    for (;;) {
      pollfd entries[2] = {{listener_.get(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}};
      ::poll(entries, 2, -1);
      if (entries[1].revents != 0) return;
      env::Fd fd;
      if (env::accept_from(listener_.get(), fd).status != env::IoStatus::kOk) continue;
      env::set_no_delay(fd.get());
      ++accepted_;
      connections_.emplace_back([this, moved = std::make_shared<env::Fd>(std::move(fd))] {
        FakeConnection connection(std::move(*moved), stop_.descriptor());
        serve(connection);
        const std::lock_guard lock(mutex_);
        if (event_connection_ == &connection) event_connection_ = nullptr;
      });
    }
  }
  bool shake(FakeConnection& at) {
    const auto pdu = at.receive();
    if (!pdu) return false;
    if (const Hook hook = get(handshake_); hook && hook(at, *pdu)) return false;
    const auto request = load_pdu<IcReq>(pdu->head);
    IcResp answer = copy().icresp;
    if (answer.dgst == 0) answer.dgst = request.dgst;
    at.send(answer, 0, {});
    at.framing.header_digest = (answer.dgst & kDigestHeader) != 0;
    at.framing.data_digest = (answer.dgst & kDigestData) != 0;
    return true;
  }
  FakeSelf copy() const {
    const std::lock_guard lock(self_mutex);
    return self;
  }
  void serve(FakeConnection& at) {
    if (!shake(at)) return;
    while (const auto pdu = at.receive()) {
      if (pdu->layout.type != PduType::kCapsuleCmd) continue;  // a TermReq, or late data
      const bool io = at.qid != 0;
      if (const Hook hook = get(io ? io_ : admin_); hook && hook(at, *pdu)) {
        if (at.descriptor() < 0) return;
        continue;
      }
      if (pdu->command().opcode == kFabricsOpcode) {
        serve_fabrics(at, *pdu);
      } else if (io) {
        serve_io(at, *pdu);
      } else {
        serve_admin(at, *pdu);
      }
    }
  }
  void serve_fabrics(FakeConnection& at, const FakePdu& pdu);
  void serve_admin(FakeConnection& at, const FakePdu& pdu);

  Waker stop_;
  env::Fd listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> accepted_{0};
  std::thread thread_;
  std::vector<std::thread> connections_;  // by the accepting thread, then by the end
  mutable std::mutex mutex_;              // guards what follows
  Hook admin_;
  Hook io_;
  Hook handshake_;
  FakeConnection* event_connection_ = nullptr;
  std::uint16_t event_cid_ = 0;
  std::uint32_t cc_ = 0;
};

inline void FakeTarget::serve_fabrics(FakeConnection& at, const FakePdu& pdu) {
  const auto property = command_as<PropertyCommand>(pdu.command());
  if (property.fctype == static_cast<std::uint8_t>(FabricsType::kConnect)) {
    const auto connect = command_as<ConnectCommand>(pdu.command());
    at.qid = connect.qid;
    at.no_sq_flow = copy().sq_flow_off;
    return at.respond(connect.cid, {}, 1);
  }
  std::uint64_t value = 0;
  const FakeSelf now = copy();
  {
    const std::lock_guard lock(mutex_);
    if (property.fctype == static_cast<std::uint8_t>(FabricsType::kPropertySet)) {
      cc_ = static_cast<std::uint32_t>(property.value);
      shut_down = Cc{cc_}.shutdown() != 0;
    }
    const Cc cc{cc_};
    const auto offset = static_cast<PropertyOffset>(property.offset);
    if (offset == PropertyOffset::kCap) value = now.cap.bits;
    if (offset == PropertyOffset::kCc) value = cc.bits;
    if (offset == PropertyOffset::kCsts) {
      value = (cc.enable() && now.ready ? kCstsReady : 0) |
              (cc.shutdown() != 0 ? kCstsShutdownComplete : 0);
    }
  }
  at.respond(property.cid, {}, value);
}

inline void FakeTarget::serve_admin(FakeConnection& at, const FakePdu& pdu) {
  const Command command = pdu.command();
  const FakeSelf now = copy();
  std::array<std::byte, kIdentifyBytes> page{};
  switch (static_cast<AdminOpcode>(command.opcode)) {
    case AdminOpcode::kIdentify: {
      const auto cns = static_cast<IdentifyCns>(command.cdw10 & 0xFFU);
      if (cns == IdentifyCns::kController) std::memcpy(page.data(), &now.controller, page.size());
      if (cns == IdentifyCns::kNamespace) std::memcpy(page.data(), &now.ns, page.size());
      if (cns == IdentifyCns::kDescriptors) encode_ids(now.ids, page);
      if (cns == IdentifyCns::kActiveNamespaces && !now.active.empty()) {
        std::memcpy(page.data(), now.active.data(), now.active.size() * 4);
      }
      at.data(command.cid, 0, page, kFlagLast);
      return at.respond(command.cid);
    }
    case AdminOpcode::kSetFeatures:
      return at.respond(command.cid, {}, (command.cdw10 & 0xFFU) == 7 ? now.queues_dw0 : 0);
    case AdminOpcode::kKeepAlive:
      ++keep_alives;
      return at.respond(command.cid);
    case AdminOpcode::kGetLogPage: {
      const std::vector<std::byte> zeros(command.sgl.length);
      at.data(command.cid, 0, zeros, kFlagLast);
      return at.respond(command.cid);
    }
    case AdminOpcode::kAsyncEvent: {
      const std::lock_guard lock(mutex_);
      event_connection_ = &at;
      event_cid_ = command.cid;
      return;
    }
    default:
      return at.respond(command.cid, refused(Sc::kInvalidOpcode));
  }
}

inline void FakeTarget::serve_io(FakeConnection& at, const FakePdu& pdu) {
  const Command command = pdu.command();
  const std::uint64_t offset = command.lba() * 4096;
  const std::uint32_t bytes = command.blocks() * 4096;
  switch (static_cast<IoOpcode>(command.opcode)) {
    case IoOpcode::kRead:
      ++reads;
      at.data(command.cid, 0, std::span(memory).subspan(offset, bytes),
              static_cast<std::uint8_t>(kFlagLast | (at.no_sq_flow ? kFlagSuccess : 0)));
      if (!at.no_sq_flow) at.respond(command.cid);
      return;
    case IoOpcode::kWrite: {
      ++writes;
      if (!pdu.data.empty()) {
        std::memcpy(memory.data() + offset, pdu.data.data(), pdu.data.size());
        return at.respond(command.cid);
      }
      at.r2t(command.cid, 7, 0, bytes);
      for (std::uint32_t have = 0; have < bytes;) {
        const auto part = at.receive();
        if (!part) return;
        if (part->layout.type != PduType::kH2cData) {  // the next command: later
          ADD_FAILURE() << "the fake serves one write at a time";
          return;
        }
        EXPECT_EQ(part->h2c().datao, have);
        std::memcpy(memory.data() + offset + have, part->data.data(), part->data.size());
        have += static_cast<std::uint32_t>(part->data.size());
      }
      return at.respond(command.cid);
    }
    case IoOpcode::kFlush:
      ++flushes;
      return at.respond(command.cid);
    case IoOpcode::kWriteZeroes:
      std::memset(memory.data() + offset, 0, bytes);
      return at.respond(command.cid);
    default:
      return at.respond(command.cid, refused(Sc::kInvalidOpcode));
  }
}

}  // namespace larder::nvmf
