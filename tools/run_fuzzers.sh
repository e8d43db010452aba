#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every libFuzzer program NAME_fuzz of a build for some seconds, JOBS of them at a time, from
# the corpus tests/fuzz/corpus/NAME_fuzz if there is one. New inputs stay in BUILD_DIR; the corpus
# is not written to. After a crash no further one is started, and the end says where the inputs are.
#   tools/run_fuzzers.sh BUILD_DIR SECONDS [JOBS]
#   tools/run_fuzzers.sh --one BUILD_DIR SECONDS PROGRAM
set -euo pipefail

run_one() {
  local build="$1" seconds="$2" program="$3" name
  name="$(basename "$program")"
  mkdir -p "$build/corpus/$name" "$build/crashes"
  local corpora=("$build/corpus/$name")
  if [[ -d "tests/fuzz/corpus/$name" ]]; then corpora+=("tests/fuzz/corpus/$name"); fi
  echo "--> $name"
  local TIMEFORMAT='%U %S'
  # 255 makes xargs start no more.
  { time "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
      -print_final_stats=1 -artifact_prefix="$build/crashes/$name-" "${corpora[@]}" \
      > "$build/$name.log" 2>&1; } 2> "$build/$name.cpu" ||
    { cat "$build/$name.log" >&2; return 255; }
  local inputs cpu
  # Where programs share cores, wall time says little about how much was tried.
  cpu="$(awk '{ printf "%.0f", $1 + $2 }' "$build/$name.cpu")"
  inputs="$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log")"
  echo "    $name: $inputs inputs in $cpu CPU seconds, no crash"
}

if [[ "$1" == --one ]]; then
  shift
  run_one "$@"
  exit
fi

build="$1"
seconds="$2"
mapfile -d '' -t programs < <(find "$build" -type f -name '*_fuzz' -perm -u+x -print0 | sort -z)
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "run_fuzzers: no *_fuzz program under $build; build the preset fuzz first" >&2
  exit 1
fi
if ! printf '%s\0' "${programs[@]}" |
  xargs -0 -n 1 -P "${3:-1}" "$0" --one "$build" "$seconds"; then
  echo "run_fuzzers: a program failed; its input is in $build/crashes/" >&2
  exit 1
fi
echo "run_fuzzers: ${#programs[@]} programs, $seconds s each, no crash"
