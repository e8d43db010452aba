#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The guest's first process. The kernel's console is the first serial line; on the second one it
# says READY and then runs the lines it is given. After the output of each: \036 STATUS \n.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
modprobe -a virtio_pci virtio_net crc32c-intel configfs
mount -t configfs none /sys/kernel/config
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
route add default gw 10.0.2.2
. /guest_lib.sh

stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo READY >&3
while read -r line <&3; do
  # In a process of its own, so that an `exit` or an error of the shell ends no more than that.
  (eval "$line") </dev/null >&3 2>&1
  printf '\036%d\n' $? >&3
done
