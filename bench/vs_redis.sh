#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Larder beside Debian's Redis: same sizes, same connections, same depth, in turns in one run.
#   bench/vs_redis.sh [LARDER] [--json FILE] [--rounds N] [--seconds S] [--quick]
# Exit code 0: ahead in every row. 1: behind in at least one. 2: could not measure.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
larder="$here/../build/release/larder"
case "${1:-}" in
  "" | --*) ;;
  *) larder=$1; shift ;;
esac
give_up() {
  echo "vs_redis: $1" >&2
  exit 2
}
for tool in python3 redis-server redis-benchmark; do
  command -v "$tool" >/dev/null ||
    give_up "$tool is missing (apt-get install python3 redis-server redis-tools)"
done
[ -x "$larder" ] ||
  give_up "no program at $larder; build it (make release) or name it as the first argument"
exec python3 "$here/vs_redis.py" --larder "$larder" "$@"
