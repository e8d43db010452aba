#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Linux guest that the NVMe/TCP tests boot: DIR/qemu, DIR/kernel and DIR/initrd, from
# Debian's cloud kernel (downloaded once, kept in DIR) and programs of this host. Needs no root.
#   tests/nvmf_guest/make_guest.sh DIR
# Exit 0: they are there. Exit 77: they cannot be made here; the last line on stderr says why.
set -euo pipefail

MODULES=(virtio_pci virtio_net crc32c-intel configfs nvmet nvmet-tcp nvme-tcp null_blk brd loop)
PROGRAMS=(nvme mke2fs)
META=linux-image-cloud-amd64

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
PATH="$PATH:/usr/sbin:/sbin"

cannot() {
  printf '%s\n' "no guest: $*" >&2
  exit 77
}

[[ $# -eq 1 ]] || { printf '%s\n' "usage: make_guest.sh DIR" >&2; exit 2; }
[[ "$(uname -m)" == x86_64 ]] || cannot "the guest is x86_64, this host is $(uname -m)"
for tool in qemu-system-x86_64 busybox cpio depmod modprobe dpkg-deb apt-get apt-cache flock ldd \
  "${PROGRAMS[@]}"; do
  command -v "$tool" >/dev/null || cannot "$tool is missing (tools/install_deps.sh --test)"
done
# The guest has no loader for a busybox that needs libraries.
if ldd "$(command -v busybox)" >/dev/null 2>&1; then cannot "busybox is not static"; fi

mkdir -p "$1"
cd "$1"
# Two test binaries may come here at once.
exec 9>lock
flock 9

# The name of the kernel's package moves with its ABI, so it is asked for.
kernel_package() {
  apt-cache depends "$META" 2>/dev/null | awk '/Depends:/ {print $2; exit}'
}

fetch_kernel() {
  local package version work
  package="$(kernel_package)"
  [[ -n "$package" ]] || cannot "apt knows no $META (apt-get update)"
  work="$(mktemp -d ./fetch.XXXXXX)"
  # apt's own user may not write here; that it says so is no news.
  (cd "$work" && apt-get download -q "$package" >apt.log 2>&1) ||
    cannot "apt-get download $package: $(tail -1 "$work/apt.log")"
  dpkg-deb -x "$work/$package"_*.deb "$work/root"
  version="$(ls "$work/root/lib/modules")"
  depmod -b "$work/root" "$version"
  rm -rf root
  mv "$work/root" root
  rm -rf "$work"
}

# PATH: into the image, with the libraries it needs.
add_program() {
  local file
  cp -L "$1" image/usr/sbin/
  ldd "$1" | grep -o '/[^ ]*' | while read -r file; do
    mkdir -p "image$(dirname "$file")"
    cp -L "$file" "image$file"
  done
}

add_modules() {
  local version tree name file
  version="$(ls root/lib/modules)"
  tree="lib/modules/$version"
  mkdir -p "image/$tree"
  cp "root/$tree"/modules.{builtin,builtin.modinfo,order} "image/$tree/"
  for name in "${MODULES[@]}"; do
    modprobe -d root -S "$version" --show-depends "$name" | awk '$1 == "insmod" {print $2}'
  done | sort -u | while read -r file; do
    file="${file#root}"
    file="/lib/modules/${file##*/lib/modules/}"
    mkdir -p "image$(dirname "$file")"
    cp "root$file" "image$file"
  done
  depmod -b image "$version"
}

make_image() {
  rm -rf image
  mkdir -p image/{bin,dev,etc,mnt,proc,run,sys,tmp,usr/sbin}
  cp "$(command -v busybox)" image/bin/busybox
  ln -s busybox image/bin/sh
  install -m 755 "$here/guest_init.sh" image/init
  install -m 644 "$here/guest_lib.sh" image/guest_lib.sh
  [[ ! -e /etc/mke2fs.conf ]] || cp /etc/mke2fs.conf image/etc/
  local program
  for program in "${PROGRAMS[@]}"; do add_program "$(command -v "$program")"; done
  add_modules
  # Not compressed: the emulated CPU would take longer to unpack it than to copy it.
  (cd image && find . -print0 | cpio --null --create --format=newc --quiet --owner=0:0) >initrd.new
  rm -rf image
}

# Of what the image is made of: it is made anew when one of them changes.
stamp() {
  cat "$here"/make_guest.sh "$here"/guest_init.sh "$here"/guest_lib.sh
  ls root/lib/modules
  ls -lL "$(command -v busybox)" "$(command -v nvme)" "$(command -v mke2fs)"
}

ln -sfn "$(command -v qemu-system-x86_64)" qemu
[[ -d root/lib/modules ]] || fetch_kernel
now="$(stamp | sha256sum)"
if [[ -e initrd && -e kernel && "$(cat stamp 2>/dev/null)" == "$now" ]]; then exit 0; fi
make_image
cp root/boot/vmlinuz-* kernel.new
mv kernel.new kernel
mv initrd.new initrd
printf '%s\n' "$now" >stamp
