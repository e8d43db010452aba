#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Larder builds with, from the distribution's own packages; touches nothing that is
# there already, and needs no network when nothing is missing.
#   tools/install_deps.sh            what a build needs
#   tools/install_deps.sh --test     and what the checks and tests need; where the programs of the
#                                    QEMU guest cannot be had, its tests are skipped
#   tools/install_deps.sh --fuzz     and the compiler for the fuzz targets
# LARDER_SKIP_DEPS=1 skips all of it (you provide the libraries yourself).
set -euo pipefail

BUILD=(g++ make cmake ninja-build ccache pkg-config libfmt-dev libspdlog-dev libprotobuf-dev
  protobuf-compiler libcpp-httplib-dev prometheus-cpp-dev libcli11-dev libyaml-cpp-dev
  nlohmann-json3-dev libxxhash-dev libexpected-dev libssl-dev liburing-dev libisal-dev)
TEST=(libgtest-dev libgmock-dev googletest clang-format python3 redis-server redis-tools)
FUZZ=(clang-16 libclang-rt-16-dev)
# For the tests against a real Linux kernel (tests/nvmf_guest).
GUEST=(qemu-system-x86 busybox-static cpio kmod nvme-cli e2fsprogs)

say() { printf '%s\n' "install_deps: $*" >&2; }

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" == installed ]]
}

# Prints the command prefix that makes root of us; fails where there is none.
root_prefix() {
  if [[ $EUID -eq 0 ]]; then
    return 0
  elif command -v sudo >/dev/null; then
    echo "sudo"
  else
    return 1
  fi
}

missing_of() {
  local package
  for package in "$@"; do
    is_installed "$package" || printf '%s\n' "$package"
  done
}

# The guest is worth having, and nothing else needs it.
get_guest() {
  local root missing
  mapfile -t missing < <(missing_of "${GUEST[@]}")
  if [[ ${#missing[@]} -gt 0 ]]; then
    say "installing ${missing[*]} (for tests in a QEMU guest)"
    { root="$(root_prefix)" && $root apt-get update -qq &&
      $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        "${missing[@]}"; } || say "they cannot be installed here"
  fi
  "$(dirname "${BASH_SOURCE[0]}")"/../tests/nvmf_guest/make_guest.sh \
    "$(dirname "${BASH_SOURCE[0]}")"/../build/guest || say "tests in the guest will be skipped"
}

# On a systemd machine the redis-server package would start a service and start it at every boot.
# The tests start their own servers, so a service that was not here before is kept down.
keep_redis_down() {
  [[ -d /run/systemd/system ]] && command -v systemctl >/dev/null || return 0
  case "$1" in
    before) $2 systemctl mask --runtime --quiet redis-server.service ;;
    after)
      $2 systemctl unmask --runtime --quiet redis-server.service || true
      $2 systemctl disable --quiet redis-server.service 2>/dev/null || true
      ;;
  esac
}

wanted=("${BUILD[@]}")
guest=false
for option in "$@"; do
  case "$option" in
    --test)
      wanted+=("${TEST[@]}")
      guest=true
      ;;
    --fuzz) wanted+=("${FUZZ[@]}") ;;
    *)
      say "unknown option '$option'; use --test, --fuzz or nothing"
      exit 2
      ;;
  esac
done

if [[ "${LARDER_SKIP_DEPS:-0}" == 1 ]]; then
  say "skipped (LARDER_SKIP_DEPS=1)"
  exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  say "this is no Debian or Ubuntu. Larder needs these (Debian's names; versions of Debian 12 or"
  say "newer): ${wanted[*]}"
  say "Install their like, then run again with LARDER_SKIP_DEPS=1"
  exit 1
fi

mapfile -t missing < <(missing_of "${wanted[@]}")
if [[ ${#missing[@]} -eq 0 ]]; then
  say "all ${#wanted[@]} packages are installed"
  ! $guest || get_guest
  exit 0
fi

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if ! root="$(root_prefix)"; then
  say "missing: ${missing[*]}"
  say "Installing needs root, and there is no sudo here. As root, run:"
  say "  apt-get update && ${install[*]}"
  exit 1
fi

say "installing ${missing[*]}"
$root apt-get update -qq
# Whatever happens below, the mask must not stay.
for package in "${missing[@]}"; do
  if [[ "$package" == redis-server ]]; then
    trap 'keep_redis_down after "$root"' EXIT
    keep_redis_down before "$root"
  fi
done
if ! $root env DEBIAN_FRONTEND=noninteractive "${install[@]}"; then
  say "apt-get failed. Larder needs Debian 12 (Ubuntu 24.04) or newer; mend what apt-get says"
  say "above, or provide the libraries yourself and set LARDER_SKIP_DEPS=1"
  exit 1
fi
! $guest || get_guest
