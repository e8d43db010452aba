#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints the build targets of the ctest entries that carry LABEL in BUILD_DIR (they share a name),
# so that a sanitizer build makes only what it runs; prints "all" when one is no target by itself.
#   tools/labelled_targets.sh BUILD_DIR LABEL
set -euo pipefail

targets=()
while read -r name; do
  if ! ninja -C "$1" -t query "$name" >/dev/null 2>&1; then
    echo all
    exit 0
  fi
  targets+=("$name")
done < <(ctest --test-dir "$1" -N -L "^$2\$" | sed -n 's/^ *Test *#[0-9]*: //p')
echo "${targets[*]:-all}"
