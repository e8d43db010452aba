# SPDX-License-Identifier: Apache-2.0
# The front door. CMakePresets.json holds the build settings; this file only says them in order.
# `make` alone lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
LARDER := build/release/larder
CTEST := ctest --output-on-failure --no-tests=error --parallel $(JOBS)
START := $(shell date +%s)
# Sanitizers of gcc 12 cannot map their shadow under a high-entropy address layout.
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

TSAN_SUPPRESSIONS = :suppressions=$(CURDIR)/tools/tsan.supp

export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS ?= halt_on_error=1:second_deadlock_stack=1$(TSAN_SUPPRESSIONS)

# $(call say,what) prints what goes on and the seconds since make began.
say = @printf '\n==> %s (%d s in)\n' '$(1)' "$$(( $$(date +%s) - $(START) ))"
done = @printf '\n==> %s: done in %d s\n' '$(1)' "$$(( $$(date +%s) - $(START) ))"

.PHONY: help demo test build check format test-dev test-asan test-tsan fuzz bench clean \
  deps deps-test _release _check _dev _asan _tsan

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | \
	  while IFS=$$'\t' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done
	@echo '  JOBS=N (default: all cores), LARDER_SKIP_DEPS=1 (do not touch packages)'

demo: ## install what is missing, build, and show Larder at work
	$(call say,[1/3] checking packages)
	@tools/install_deps.sh
	$(call say,[2/3] building release with $(JOBS) jobs)
	@$(MAKE) _release
	$(call say,[3/3] $(LARDER) demo)
	@$(LARDER) demo
	$(call done,demo)

build: deps _release ## build the larder program (build/release/larder)
	$(call done,build)

# Ends with ctest's own summary, so its last line is the verdict.
test: ## what CI runs: house rules and all tests (test-asan and test-tsan go further)
	$(call say,[1/3] checking packages)
	@tools/install_deps.sh --test
	$(call say,[2/3] house rules)
	@$(MAKE) _check
	$(call say,[3/3] building dev with $(JOBS) jobs and testing)
	@$(MAKE) _dev

check: ## the house rules (docs/style.md) and the self-tests of their checker
	@$(MAKE) _check
	$(call done,check)

format: ## run clang-format over every C++ file
	@git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.c' | \
	  xargs -0 -r -n 16 -P $(JOBS) "$$(command -v clang-format-14 || echo clang-format)" -i

test-dev: deps-test _dev ## all tests without sanitizers: quickest to build (build/dev)
test-asan: deps-test _asan ## all tests under AddressSanitizer and UBSan (build/asan)
test-tsan: deps-test _tsan ## the tests labelled concurrent under ThreadSanitizer (build/tsan)

FUZZ_SECONDS ?= 30
fuzz: ## build the fuzz targets with clang-16 and run each for FUZZ_SECONDS (30)
	$(call say,[1/3] checking packages)
	@tools/install_deps.sh --fuzz
	$(call say,[2/3] building fuzz with $(JOBS) jobs)
	@$(call configure,fuzz)
	@cmake --build --preset fuzz --parallel $(JOBS) --target fuzzers
	$(call say,[3/3] fuzzing, $(FUZZ_SECONDS) s each)
	@tools/run_fuzzers.sh build/fuzz $(FUZZ_SECONDS) $(JOBS)
	$(call done,fuzz)

bench: build ## build release and measure this machine's limits and Larder against them
	@$(LARDER) bench $(ARGS)

clean: ## remove build/
	@rm -rf build

deps:
	@tools/install_deps.sh
deps-test:
	@tools/install_deps.sh --test
_check:
	@python3 tools/check_house_test.py --quiet
	@python3 tools/check_house.py

# $(call configure,preset): quiet unless it fails.
configure = mkdir -p build && { cmake --preset $(1) > build/$(1).configure.log 2>&1 || \
  { cat build/$(1).configure.log >&2; exit 1; }; }

_release:
	@$(call configure,release)
	@cmake --build --preset release --parallel $(JOBS)
_dev:
	@$(call configure,dev)
	@cmake --build --preset dev --parallel $(JOBS)
	@$(CTEST) --test-dir build/dev
_asan:
	@$(call configure,asan)
	@cmake --build --preset asan --parallel $(JOBS)
	@$(NO_ASLR) $(CTEST) --test-dir build/asan
_tsan:
	@$(call configure,tsan)
	@cmake --build --preset tsan --parallel $(JOBS) \
	  --target $$(tools/labelled_targets.sh build/tsan concurrent)
	@$(NO_ASLR) $(CTEST) --test-dir build/tsan -L '^concurrent$$'
