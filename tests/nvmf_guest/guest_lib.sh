# SPDX-License-Identifier: Apache-2.0
# What tests ask of the guest, in words of their own. Sourced by its first process.

CONFIG=/sys/kernel/config

# --- disks ---

# null_disk NAME MIB BLOCK [ATTRIBUTE=VALUE ...]: /dev/NAME, in memory, with discard.
null_disk() {
  [ -d $CONFIG/nullb ] || modprobe null_blk nr_devices=0 || return
  d=$CONFIG/nullb/$1
  mkdir $d && echo $2 >$d/size && echo $3 >$d/blocksize && echo 1 >$d/memory_backed || return
  echo 1 >$d/discard
  shift 3
  for one in "$@"; do echo "${one#*=}" >$d/"${one%%=*}" || return; done
  echo 1 >$d/power
}

no_null_disk() { echo 0 >$CONFIG/nullb/$1/power && rmdir $CONFIG/nullb/$1; }

# --- the kernel's target ---

# subsystem NQN [ATTRIBUTE=VALUE ...]
subsystem() {
  [ -d $CONFIG/nvmet ] || modprobe -a nvmet nvmet-tcp || return
  s=$CONFIG/nvmet/subsystems/$1
  mkdir $s && echo 1 >$s/attr_allow_any_host || return
  shift
  for one in "$@"; do echo "${one#*=}" >$s/attr_"${one%%=*}" || return; done
}

# namespace NQN NSID PATH [UUID]: a block device, or a file (then through the page cache).
namespace() {
  n=$CONFIG/nvmet/subsystems/$1/namespaces/$2
  mkdir $n && echo -n $3 >$n/device_path || return
  [ -b $3 ] || echo 1 >$n/buffered_io || return
  [ -z "$4" ] || echo $4 >$n/device_uuid || return
  echo 1 >$n/enable
}

# no_namespace NQN NSID
no_namespace() {
  n=$CONFIG/nvmet/subsystems/$1/namespaces/$2
  echo 0 >$n/enable && rmdir $n
}

# port NUMBER TRSVCID INLINE_BYTES [NQN ...]: TCP, on all addresses.
port() {
  p=$CONFIG/nvmet/ports/$1
  mkdir $p && echo ipv4 >$p/addr_adrfam && echo tcp >$p/addr_trtype || return
  echo 0.0.0.0 >$p/addr_traddr && echo $2 >$p/addr_trsvcid || return
  echo $3 >$p/param_inline_data_size || return
  port=$1
  shift 3
  for nqn in "$@"; do link $port $nqn || return; done
}

# link PORT NQN: the subsystem can be reached by it from now on.
link() { ln -s $CONFIG/nvmet/subsystems/$2 $CONFIG/nvmet/ports/$1/subsystems/$2; }

# unlink_all NQN: from all ports; its connections end.
unlink_all() { rm -f $CONFIG/nvmet/ports/*/subsystems/$1; }

# no_subsystem NQN
no_subsystem() {
  unlink_all $1
  s=$CONFIG/nvmet/subsystems/$1
  for n in $s/namespaces/*; do [ ! -d $n ] || no_namespace $1 ${n##*/}; done
  rmdir $s
}

# --- the kernel's initiator ---

# join NQN PORT [OPTION=VALUE,...]: connects to a target on the tests' host.
join() {
  [ -e /dev/nvme-fabrics ] || modprobe nvme-tcp || return
  echo "transport=tcp,traddr=10.0.2.2,trsvcid=$2,nqn=$1${3:+,$3}" >/dev/nvme-fabrics
}

# ext4 DEVICE [OPTION ...]: by the real mke2fs, not busybox's.
ext4() { /usr/sbin/mke2fs -q -F -t ext4 "$@"; }

# The first block device of a subsystem, once it is there: disk_of NQN [NSID]
disk_of() {
  tries=0
  while [ $tries -lt 100 ]; do
    for one in /sys/class/nvme-subsystem/*; do
      [ -e $one/subsysnqn ] && [ "$(cat $one/subsysnqn)" = "$1" ] || continue
      for disk in $one/nvme*n${2:-1}; do
        [ -b /dev/${disk##*/} ] && echo /dev/${disk##*/} && return
      done
    done
    tries=$((tries + 1))
    sleep 0.05
  done
  echo "no disk of $1" && return 1
}
