#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Larder's record store beside Debian's RocksDB with BlobDB: 1 MiB values, in turns in one run on
# one folder. Builds what it needs in build/vs_rocksdb, and installs librocksdb-dev if need be.
#   bench/vs_rocksdb.sh --dir DIR [--values N] [--rounds N] [--json FILE]
# Exit code 0: behind in no row. 1: behind in at least one. 2: could not measure.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build="$here/build/vs_rocksdb"
give_up() {
  echo "vs_rocksdb: $1" >&2
  exit 2
}
is_there() { [ -e /usr/include/rocksdb/db.h ]; }
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
if ! is_there; then
  as_root apt-get install -y --no-install-recommends librocksdb-dev >&2 || true
  is_there || give_up "librocksdb-dev is missing (apt-get install librocksdb-dev)"
fi
mkdir -p "$build"
(cd "$here" && cmake --preset release -B "$build" -DLARDER_VS_ROCKSDB=ON) >"$build.log" 2>&1 ||
  give_up "cmake failed, see $build.log"
cmake --build "$build" --target vs_rocksdb >"$build.log" 2>&1 ||
  give_up "the build failed, see $build.log"
exec "$build/bench/vs_rocksdb/vs_rocksdb" "$@"
