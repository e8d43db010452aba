// SPDX-License-Identifier: Apache-2.0
// The Linux kernel's initiator and nvme-cli against `larder target`. Neither knows of it.
#include <fmt/format.h>

#include "../integration/target_process.h"
#include "guest_fixture.h"

namespace larder::nvmf_guest {
namespace {

using integration::TargetProcess;
using integration::within;

constexpr std::string_view kNqn = "nqn.2026-11.io.larder:under-test";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

class LinuxInitiator : public GuestTest {
 protected:
  void SetUp() override {
    GuestTest::SetUp();
    if (!IsSkipped() && !HasFailure()) guest().must("modprobe nvme-tcp");
  }
  void TearDown() override {
    if (HasFailure() && target_) {
      std::cout << "target: " << target_->log()
                << "\nguest: " << guest().run("dmesg | tail -20").text << "\n";
    }
    // Whatever a failed test left would meet the next one.
    guest().run("umount /mnt 2>/dev/null; nvme disconnect-all");
  }

  // Starts a target that exports `what` under kNqn.
  TargetProcess& serve(std::vector<std::string> what) {
    what.insert(what.end(), {"--nqn", std::string(kNqn)});
    target_ = std::make_unique<TargetProcess>(std::move(what));
    EXPECT_TRUE(target_->start()) << target_->log();
    return *target_;
  }
  TargetProcess& target() { return *target_; }

  // nvme-cli on the target: VERB -t tcp -a ... -s ...
  std::string fabrics(std::string_view verb, std::string_view more = "") {
    return fmt::format("nvme {} -t tcp -a {} -s {} {}", verb, kHostAddress, target_->port(), more);
  }
  // The guest's block device of namespace 1, once connected.
  std::string connect(std::string_view options = "") {
    guest().must(fmt::format("join {} {} {}", kNqn, target_->port(), options));
    return disk();
  }
  std::string disk(int nsid = 1) {
    std::string path = guest().must(fmt::format("disk_of {} {}", kNqn, nsid));
    if (!path.empty()) path.pop_back();
    return path;
  }
  void disconnect() { guest().must(fmt::format("nvme disconnect -n {}", kNqn)); }
  // Makes a file system, fills it with files of many sizes, and finds them the same afterwards.
  void work_with_files(const std::string& path) {
    guest().must("ext4 " + path + " && mount " + path + " /mnt");
    guest().must(
        "for i in 1 7 63 500 4000; do dd if=/dev/urandom of=/mnt/$i bs=1000 count=$i || exit; "
        "done 2>/dev/null; cp -r /bin/busybox /mnt; sync");
    guest().must("cd /mnt && sha256sum * >/tmp/sums 2>/dev/null; cd / && umount /mnt");
    guest().must("echo 3 >/proc/sys/vm/drop_caches; mount " + path + " /mnt && cd /mnt && " +
                 "grep -v lost /tmp/sums | sha256sum -c >/dev/null; s=$?; cd /; umount /mnt; "
                 "exit $s");
  }

 private:
  std::unique_ptr<TargetProcess> target_;
};

TEST_F(LinuxInitiator, DiscoversTheSubsystem) {
  // The guest's way here is translated: it has to be told where we are.
  serve({"--ram", "16MiB", "--advertise", std::string(kHostAddress)});
  const std::string found = guest().must(fabrics("discover"));
  EXPECT_TRUE(contains(found, kNqn)) << found;
  EXPECT_TRUE(contains(found, "trtype:  tcp")) << found;
  EXPECT_TRUE(contains(found, fmt::format("trsvcid: {}", target().port()))) << found;
  // With what it found, without being told the name.
  guest().must(fabrics("connect-all"));
  EXPECT_TRUE(disk().starts_with("/dev/nvme"));
  disconnect();
}

TEST_F(LinuxInitiator, FilesSurviveOnMemory) {
  serve({"--ram", "64MiB"});
  work_with_files(connect());
  disconnect();
}

TEST_F(LinuxInitiator, FilesSurviveWithDigests) {
  serve({"--ram", "64MiB"});
  for (const std::string_view options : {"hdr_digest", "data_digest", "hdr_digest,data_digest"}) {
    SCOPED_TRACE(options);
    work_with_files(connect(options));
    disconnect();
  }
}

TEST_F(LinuxInitiator, FilesSurviveOnSeveralQueues) {
  serve({"--ram", "64MiB"});
  const std::string path = connect("nr_io_queues=2,nr_write_queues=1,nr_poll_queues=1");
  work_with_files(path);
  disconnect();
}

TEST_F(LinuxInitiator, FilesSurviveOnBlocksOf512) {
  serve({"--ram", "64MiB", "--block", "512"});
  const std::string path = connect();
  EXPECT_EQ(guest().must("blockdev --getss " + path), "512\n");
  work_with_files(path);
  disconnect();
}

TEST_F(LinuxInitiator, UnderstandsWhatIsIdentified) {
  serve({"--ram", "16MiB"});
  const std::string path = connect();
  EXPECT_EQ(guest().must("blockdev --getsize64 " + path), "16777216\n");
  EXPECT_EQ(guest().must("blockdev --getss " + path), "4096\n");
  EXPECT_TRUE(contains(guest().must("nvme list"), path));
  const std::string controller = guest().must("nvme id-ctrl /dev/nvme0");
  EXPECT_TRUE(contains(controller, kNqn)) << controller;
  EXPECT_TRUE(contains(guest().must("nvme id-ns " + path), "nsze    : 0x1000"));
  EXPECT_TRUE(contains(guest().must("nvme ns-descs " + path), "uuid"));
  EXPECT_TRUE(contains(guest().must("nvme list-ns /dev/nvme0"), "0x1"));
  guest().must("nvme smart-log /dev/nvme0");
  guest().must("nvme error-log /dev/nvme0");
  guest().must("nvme fw-log /dev/nvme0");
  guest().must("nvme get-feature /dev/nvme0 -f 7 -H");
  // What it does not have it refuses, and goes on.
  EXPECT_NE(guest().run("nvme get-log /dev/nvme0 -i 0xc7 -l 512").status, 0);
  EXPECT_NE(guest().run("nvme admin-passthru /dev/nvme0 -o 0x7f").status, 0);
  EXPECT_EQ(guest().must("blockdev --getss " + path), "4096\n");
  disconnect();
}

// Linux looks at the namespace again when it is told that it changed, and only then.
TEST_F(LinuxInitiator, SeesAFileGrow) {
  const integration::Directory dir;
  serve({"--file", dir.file("grows") + ":16MiB"});
  const std::string path = connect();
  const std::string size = "cat /sys/block/" + path.substr(path.rfind('/') + 1) + "/size";
  EXPECT_EQ(guest().must(size), "32768\n");
  ASSERT_EQ(::truncate(dir.file("grows").c_str(), 24 << 20), 0);
  target().signal(SIGHUP);
  guest().must("for i in $(seq 100); do [ $(" + size + ") = 49152 ] && exit; sleep 0.1; done; " +
               size + "; exit 1");
  guest().must(
      "dd if=/dev/urandom of=/tmp/new bs=4096 count=1 2>/dev/null; "
      "dd if=/tmp/new of=" +
      path +
      " bs=4096 seek=6143 conv=fsync 2>/dev/null && "
      "echo 3 >/proc/sys/vm/drop_caches && "
      "dd if=" +
      path + " bs=4096 skip=6143 2>/dev/null | cmp - /tmp/new");
  // It grows again: the event was taken, so that the next is told, too.
  ASSERT_EQ(::truncate(dir.file("grows").c_str(), 32 << 20), 0);
  target().signal(SIGHUP);
  guest().must("for i in $(seq 100); do [ $(" + size +
               ") = 65536 ] && exit; sleep 0.1; done; exit 1");
  disconnect();
}

TEST_F(LinuxInitiator, FlushesDiscardsAndWritesZeroes) {
  serve({"--ram", "16MiB"});
  const std::string path = connect();
  const std::string ones = "tr '\\0' '\\377' </dev/zero | head -c 65536";
  guest().must(fmt::format("{} | dd of={} bs=4k iflag=fullblock oflag=direct 2>&1", ones, path));
  guest().must("nvme flush " + path + " -n 1");
  EXPECT_EQ(guest().must(fmt::format("dd if={} bs=4k count=16 iflag=direct 2>/dev/null | "
                                     "tr -d '\\377' | wc -c",
                                     path)),
            "0\n");
  guest().must("nvme write-zeroes " + path + " -s 2 -c 3");  // 4 blocks: the count is 0-based
  guest().must("nvme dsm " + path + " -n 1 -d -s 8 -b 4");
  EXPECT_EQ(guest().must(fmt::format("dd if={} bs=4k skip=2 count=4 iflag=direct 2>/dev/null | "
                                     "tr -d '\\0' | wc -c",
                                     path)),
            "0\n");
  EXPECT_EQ(guest().must(fmt::format("dd if={} bs=4k count=2 iflag=direct 2>/dev/null | "
                                     "tr -d '\\377' | wc -c",
                                     path)),
            "0\n");
  EXPECT_EQ(guest().must(fmt::format("dd if={} bs=4k skip=12 count=4 iflag=direct 2>/dev/null | "
                                     "tr -d '\\377' | wc -c",
                                     path)),
            "0\n");
  guest().must("blkdiscard " + path);
  // Beyond the end.
  EXPECT_NE(guest().run("nvme read " + path + " -s 4096 -c 0 -z 4096 >/dev/null").status, 0);
  EXPECT_NE(guest().run("nvme write-zeroes " + path + " -s 4095 -c 1").status, 0);
  EXPECT_EQ(guest().must("blockdev --getss " + path), "4096\n");
  disconnect();
}

TEST_F(LinuxInitiator, SeesThatItMayNotWrite) {
  serve({"--ram", "16MiB", "--read-only"});
  const std::string path = connect();
  guest().must("dd if=" + path + " of=/dev/null bs=64k count=16 iflag=direct");
  EXPECT_NE(guest().run("dd if=/dev/zero of=" + path + " bs=4k count=1 oflag=direct").status, 0);
  disconnect();
}

TEST_F(LinuxInitiator, HasSeveralNamespaces) {
  serve({"--ram", "16MiB", "--ram", "32MiB"});
  connect();
  EXPECT_EQ(guest().must("blockdev --getsize64 " + disk(1)), "16777216\n");
  EXPECT_EQ(guest().must("blockdev --getsize64 " + disk(2)), "33554432\n");
  disconnect();
}

TEST_F(LinuxInitiator, OnlyNamedHostsComeIn) {
  constexpr std::string_view kHost =
      "nqn.2014-08.org.nvmexpress:uuid:"
      "11111111-2222-4333-8444-555555555555";
  serve({"--ram", "16MiB", "--allow-host", std::string(kHost)});
  const Said refused = guest().run(
      fmt::format("join {} {} hostnqn=nqn.2026-11.io.larder:stranger", kNqn, target().port()));
  EXPECT_NE(refused.status, 0);
  connect(fmt::format("hostnqn={}", kHost));
  disconnect();
}

TEST_F(LinuxInitiator, TwoHostsAtOnce) {
  serve({"--ram", "64MiB", "--ram", "64MiB"});
  auto booted = GuestProcess::boot();
  ASSERT_TRUE(booted) << booted.error().to_string();
  GuestProcess& other = **booted;
  const std::string mine = connect();
  other.must(fmt::format("join {} {} hostnqn=nqn.2026-11.io.larder:other", kNqn, target().port()));
  // One writes what the other reads; each has a file system of its own on one namespace.
  guest().must("echo written here >/tmp/text; dd if=/tmp/text of=" + mine + " conv=sync bs=4k");
  guest().must("sync");
  const std::string theirs = other.must(fmt::format("disk_of {} 1", kNqn));
  EXPECT_TRUE(contains(other.must("head -c 12 " + theirs), "written here"));
  other.must(fmt::format("ext4 $(disk_of {} 2) && mount $(disk_of {} 2) /mnt", kNqn, kNqn));
  work_with_files(mine);
  other.must("cp /bin/busybox /mnt && sync && cmp /bin/busybox /mnt/busybox && umount /mnt");
  other.must(fmt::format("nvme disconnect -n {}", kNqn));
  disconnect();
}

// The guest stands still for longer than its keep-alive time.
TEST_F(LinuxInitiator, AHostThatFallsSilentIsLetGo) {
  serve({"--ram", "16MiB"});
  const std::size_t alone = target().descriptors();
  const std::string path = connect("keep_alive_tmo=1,reconnect_delay=1");
  EXPECT_GT(target().descriptors(), alone);
  guest().freeze();
  EXPECT_TRUE(within(30 * env::kSecond, [&] { return target().descriptors() <= alone; }))
      << target().descriptors();
  guest().thaw();
  // Its kernel notices, and comes back by itself.
  guest().must("dd if=" + path + " of=/dev/null bs=4k count=4 iflag=direct");
  EXPECT_GT(target().descriptors(), alone);
  disconnect();
  EXPECT_TRUE(within(10 * env::kSecond, [&] { return target().descriptors() <= alone; }));
}

TEST_F(LinuxInitiator, ComesBackWhenTheTargetWasKilledAndStartedAgain) {
  integration::Directory dir;
  serve({"--file", dir.file("disk") + ":64MiB"});
  const std::string path = connect("reconnect_delay=1");
  guest().must("ext4 " + path + " && mount " + path + " /mnt");
  guest().must("cp /bin/busybox /mnt && sync");
  target().kill();
  ASSERT_TRUE(target().start()) << target().log();
  // The same mount: the kernel held the writes back and sends them again.
  guest().must("cp /mnt/busybox /mnt/copy && sync && umount /mnt");
  guest().must("mount " + path + " /mnt && cmp /bin/busybox /mnt/copy; s=$?; umount /mnt; exit $s");
  disconnect();
  EXPECT_EQ(target().stop(), 0);
}

TEST_F(LinuxInitiator, OutlivesAStandstillOfTheTarget) {
  serve({"--ram", "64MiB"});
  const std::string path = connect();
  guest().must("ext4 " + path + " && mount " + path + " /mnt && cp /bin/busybox /mnt");
  target().freeze();
  guest().must("(sync && touch /tmp/synced) >/dev/null 2>&1 &");
  guest().must("sleep 1; [ ! -e /tmp/synced ]");
  target().thaw();
  guest().must("sync && cmp /bin/busybox /mnt/busybox && umount /mnt");
  disconnect();
}

}  // namespace
}  // namespace larder::nvmf_guest
