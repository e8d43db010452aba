// SPDX-License-Identifier: Apache-2.0
// A subsystem of the guest's kernel for one test, and our initiator's device on it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "guest_fixture.h"
#include "nvmf/host/device.h"

namespace larder::nvmf_guest {

inline constexpr std::uint16_t kInCapsulePort = 4420;  // 16 KiB travel with the command
// Everything by R2T: no block fits. With less than the data of Connect nvmet takes no host at all.
inline constexpr std::uint16_t kNoInCapsulePort = 4421;
inline constexpr std::uint16_t kSmallInCapsulePort = 4422;

// Its ports are made once; subsystems are linked to all of them.
inline void make_ports(GuestProcess& guest) {
  if (guest.run("[ -d $CONFIG/nvmet/ports/1 ]").ok()) return;
  guest.must("modprobe -a nvmet nvmet-tcp");
  guest.must(fmt::format("port 1 {} 16384", kInCapsulePort));
  guest.must(fmt::format("port 2 {} 1024", kNoInCapsulePort));
  guest.must(fmt::format("port 3 {} 4096", kSmallInCapsulePort));
}

// Names that nobody used before.
inline std::string new_nqn() {
  static int number = 0;
  return fmt::format("nqn.2026-11.io.larder:guest-{}", ++number);
}

class KernelTarget {
 public:
  // `attributes` of the subsystem, as guest_lib.sh takes them.
  explicit KernelTarget(GuestProcess& guest, std::string_view attributes = "")
      : guest_(guest), nqn_(new_nqn()) {
    make_ports(guest_);
    guest_.must(fmt::format("subsystem {} {}", nqn_, attributes));
    guest_.must(fmt::format("for p in 1 2 3; do link $p {}; done", nqn_));
  }
  ~KernelTarget() {
    if (SharedGuest::get() == &guest_) guest_.run("no_subsystem " + nqn_);
  }
  KernelTarget(const KernelTarget&) = delete;
  KernelTarget& operator=(const KernelTarget&) = delete;

  void add_namespace(int nsid, std::string_view path, std::string_view uuid = "") {
    guest_.must(fmt::format("namespace {} {} {} {}", nqn_, nsid, path, uuid));
  }
  void remove_namespace(int nsid) { guest_.must(fmt::format("no_namespace {} {}", nqn_, nsid)); }

  const std::string& nqn() const { return nqn_; }
  std::string ns(int nsid) const {
    return fmt::format("$CONFIG/nvmet/subsystems/{}/namespaces/{}", nqn_, nsid);
  }
  // `options` of the URL, "hdgst=1&ddgst=1"; nsid 0: not said.
  nvmf::NvmeUrl url(std::string_view options = "", int nsid = 1,
                    std::uint16_t port = kInCapsulePort) const {
    std::string text = fmt::format("nvme-tcp://127.0.0.1:{}/{}", guest_.port(port), nqn_);
    if (!options.empty()) text += fmt::format("?{}", options);
    if (nsid != 0) text += fmt::format("#{}", nsid);
    auto parsed = nvmf::parse_nvme_url(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? *parsed : nvmf::NvmeUrl();
  }
  static nvmf::NvmeDeviceOptions options(nvmf::NvmeUrl url) {
    nvmf::NvmeDeviceOptions how;
    how.url = std::move(url);
    how.host.nqn = "nqn.2026-11.io.larder:test-host";
    how.connect_timeout = 20 * env::kSecond;  // the guest is emulated, on a busy host
    return how;
  }

 private:
  GuestProcess& guest_;
  const std::string nqn_;
};

}  // namespace larder::nvmf_guest
