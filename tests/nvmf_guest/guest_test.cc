// SPDX-License-Identifier: Apache-2.0
// The guest itself, Linux against Linux: what fails here is not Larder's.
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "env/clock.h"
#include "env/socket.h"
#include "guest_fixture.h"

namespace larder::nvmf_guest {
namespace {

using Guest = GuestTest;

TEST_F(Guest, SaysWhatCommandsPrintAndHowTheyEnd) {
  const Said good = guest().run("echo one; echo two >&2");
  EXPECT_EQ(good.status, 0);
  EXPECT_EQ(good.text, "one\ntwo\n");
  EXPECT_EQ(guest().run("false").status, 1);
  EXPECT_EQ(guest().run("exit 7").status, 7);
  EXPECT_EQ(guest().run("no_such_command").status, 127);
  EXPECT_NE(guest().must("cat /proc/version").find("Linux"), std::string::npos);
}

TEST_F(Guest, ItsInitiatorReachesItsTarget) {
  constexpr std::string_view kNqn = "nqn.2026-11.io.larder:itself";
  guest().must("null_disk itself 32 4096");
  guest().must("subsystem nqn.2026-11.io.larder:itself");
  guest().must("namespace nqn.2026-11.io.larder:itself 1 /dev/itself");
  guest().must("port 1 4420 8192 nqn.2026-11.io.larder:itself");
  guest().must("modprobe nvme-tcp");
  EXPECT_NE(guest().must("nvme discover -t tcp -a 127.0.0.1 -s 4420").find(kNqn),
            std::string::npos);
  guest().must("nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.io.larder:itself -i 2");
  guest().must("ext4 $(disk_of nqn.2026-11.io.larder:itself)");
  guest().must("mount $(disk_of nqn.2026-11.io.larder:itself) /mnt");
  guest().must("dd if=/dev/urandom of=/mnt/file bs=1M count=4 && sync");
  guest().must("sha256sum /mnt/file >/tmp/sum && umount /mnt");
  guest().must("mount $(disk_of nqn.2026-11.io.larder:itself) /mnt");
  guest().must("sha256sum -c /tmp/sum && umount /mnt");
  guest().must("nvme disconnect -n nqn.2026-11.io.larder:itself");

  // And from here: the kernel's target answers an ICReq through the forwarded port.
  const auto address =
      env::SocketAddress::parse("127.0.0.1:" + std::to_string(guest().port(4420))).value();
  const env::Nanos deadline = env::monotonic_now() + 30 * env::kSecond;
  const auto fd = env::connect_to(address, deadline);
  ASSERT_TRUE(fd) << fd.error().to_string();
  std::array<std::byte, 128> request{};
  request[2] = std::byte{128};  // HLEN; PLEN follows
  request[4] = std::byte{128};
  ASSERT_TRUE(env::send_all(fd->get(), request, deadline));
  std::array<std::byte, 128> response{};
  ASSERT_TRUE(env::receive_all(fd->get(), response, deadline));
  EXPECT_EQ(response[0], std::byte{1});  // ICResp
}

TEST_F(Guest, StandsStillAndGoesOn) {
  guest().freeze();
  guest().thaw();
  EXPECT_EQ(guest().must("echo here"), "here\n");
}

}  // namespace
}  // namespace larder::nvmf_guest
