#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every libFuzzer program NAME_fuzz of a build for some seconds, from the corpus
# tests/fuzz/corpus/NAME_fuzz if there is one. New inputs stay in BUILD_DIR; the corpus is not
# written to. Stops at the first crash and says where the input is.
#   tools/run_fuzzers.sh BUILD_DIR SECONDS
set -euo pipefail

build="$1"
seconds="$2"
count=0
while IFS= read -r -d '' program; do
  name="$(basename "$program")"
  found="$build/corpus/$name"
  seeds="tests/fuzz/corpus/$name"
  mkdir -p "$found" "$build/crashes"
  echo "--> $name"
  corpora=("$found")
  [[ -d "$seeds" ]] && corpora+=("$seeds")
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=0 -verbosity=0 -artifact_prefix="$build/crashes/$name-" \
    "${corpora[@]}"; then
    echo "run_fuzzers: $name failed; its input is in $build/crashes/" >&2
    exit 1
  fi
  count=$((count + 1))
done < <(find "$build" -type f -name '*_fuzz' -perm -u+x -print0 | sort -z)
if [[ $count -eq 0 ]]; then
  echo "run_fuzzers: no *_fuzz program under $build; build the preset fuzz first" >&2
  exit 1
fi
echo "run_fuzzers: $count programs, $seconds s each, no crash"
