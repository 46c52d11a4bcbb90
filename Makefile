# The everyday entrance: each target installs the tools it needs, then calls cmake and ctest. Build
# trees are build/<kind>. Variables: JOBS, PREFIX, CLANG, TSAN_CC, CTEST_FLAGS, SEEDS, MINUTES,
# SOAK_FLAGS, SECONDS, TARGETS, CASES, FLOOD_FLAGS, FOLDER, ADDRESS, SERVE_FLAGS and WERROR.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CLANG ?= $(firstword $(shell command -v clang-14 clang) clang)
# ThreadSanitizer supports fibers in both compilers; creating one takes 400 us with gcc 12 and 11 us
# with clang 14.
TSAN_CC ?= $(CLANG)
# make seeds: seeds per test.
SEEDS ?= 1000
# ON: compiler warnings are errors, as in .ci/run. Off by default: newer compilers have new
# warnings.
WERROR ?= OFF
# More flags for ctest, e.g. CTEST_FLAGS='-R timer'.
CTEST_FLAGS ?=
# make soak: its duration, and more flags, e.g. SOAK_FLAGS='--seed 5 --chaos 100'.
MINUTES ?= 60
SOAK_FLAGS ?=
# make fuzz: seconds per target, and the targets (default: all).
SECONDS ?= 60
TARGETS ?=
# make bench: cases (default: all).
CASES ?=
# make flood: flags and attacks, e.g. FLOOD_FLAGS='--quick slow-heads'.
FLOOD_FLAGS ?=

# make serve: the folder, the address, and more flags.
FOLDER ?=
ADDRESS ?= tcp:127.0.0.1:8080
SERVE_FLAGS ?=

CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)
CONFIGURE = cmake -S . -G Ninja -DWEFT_WERROR=$(WERROR)
BUILD = cmake --build

# ThreadSanitizer's fixed shadow does not fit every address layout: run without randomisation where
# that is allowed.
NO_ASLR = $(shell setarch -R true 2> /dev/null && echo setarch -R)

.DEFAULT_GOAL := help
.PHONY: help setup build run serve test seeds soak bench-setup bench bench-quick bench-publish debug asan tsan coverage fuzz flood flood-publish \
	aarch64 fallbacks flags valgrind lint format map commits \
	musl lib install uninstall dist try-bare clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@tools/setup.sh build

build: setup ## build the libraries and programs in build/release
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS)

# Builds the demo only, without the tests.
run: setup ## build the demo and run it
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS) --target weft-demo
	@build/release/weft-demo

serve: setup ## build weft-serve; serve FOLDER, or a page with live figures, at ADDRESS
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS) --target weft-serve
	@build/release/weft-serve --address $(ADDRESS) $(SERVE_FLAGS) $(if $(FOLDER),"$(FOLDER)")

test: build ## build, then run the whole suite
	@$(CTEST) --test-dir build/release $(CTEST_FLAGS)

# Tests without seeds run once.
seeds: export WEFT_TEST_SEEDS = $(SEEDS)
seeds: setup ## the suite with more seeds for each test: SEEDS=100000 for a night
	@$(CONFIGURE) -B build/seeds -DWEFT_TEST_TIMEOUT=86400
	@$(BUILD) build/seeds -j $(JOBS)
	@$(CTEST) --test-dir build/seeds -L '^(unit|stress|seeds)$$' $(CTEST_FLAGS)

soak: build ## run all features at random for MINUTES (60) and count every operation
	@build/release/tests/soak/soak --seconds $$(($(MINUTES) * 60)) $(SOAK_FLAGS)

fuzz: setup ## run each fuzz target (or TARGETS) for SECONDS (60) with clang's libFuzzer
	@$(CONFIGURE) -B build/fuzz -DWEFT_FUZZ=ON -DWEFT_SANITIZE=address -DCMAKE_C_COMPILER=$(CLANG)
	@$(BUILD) build/fuzz -j $(JOBS) --target weft-fuzz
	@tools/fuzz.sh build/fuzz $(SECONDS) $(TARGETS)

# A peer without its tools is skipped, so a failed installation is no error here.
bench-setup: setup
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS) --target weft-bench weft-launch weft-flood weft-http-bench
	@tools/setup.sh bench || echo "some peers will be skipped"
	@JOBS=$(JOBS) bench/compare/build.sh

bench: bench-setup ## compare weft with its peers on this machine (CASES='yield echo' for some)
	@python3 bench/compare/compare.py $(CASES)

bench-quick: bench-setup ## as bench, with a tenth of the work: under two minutes
	@python3 bench/compare/compare.py --quick $(CASES)

bench-publish: ## for a release: copy the last run to docs/bench/published, generate the pages
	@tools/bench-publish.sh

flood: setup ## attack the HTTP server, and nginx (FLOOD_FLAGS=--quick, or names of attacks)
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS) --target weft-flood weft-http-bench
	@timeout 1800 python3 bench/flood/flood.py $(FLOOD_FLAGS)

flood-publish: ## for a release: copy the last flood to docs/bench/published, generate the page
	@tools/flood-publish.sh

debug: setup ## the suite as a debug build with clang
	@$(CONFIGURE) -B build/debug -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=$(CLANG) \
		-DCMAKE_CXX_COMPILER=$(subst clang,clang++,$(notdir $(CLANG)))
	@$(BUILD) build/debug -j $(JOBS)
	@$(CTEST) --test-dir build/debug $(CTEST_FLAGS)

asan: export WEFT_TEST_SCALE ?= 25
asan: setup ## the suite under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(CONFIGURE) -B build/asan -DWEFT_SANITIZE=address
	@$(BUILD) build/asan -j $(JOBS)
	@$(CTEST) --test-dir build/asan $(CTEST_FLAGS)

tsan: export WEFT_TEST_SCALE ?= 10
tsan: setup ## the suite under ThreadSanitizer
	@$(CONFIGURE) -B build/tsan -DWEFT_SANITIZE=thread -DCMAKE_C_COMPILER=$(TSAN_CC)
	@$(BUILD) build/tsan -j $(JOBS)
	@$(NO_ASLR) $(CTEST) --test-dir build/tsan $(CTEST_FLAGS)

# qemu 7.2 (tcg_tb_insert): a forked child hangs if another thread was inside GLib's slice allocator
# at the fork. malloc, which handles forks, replaces that allocator.
aarch64: export G_SLICE = always-malloc
aarch64: export WEFT_TEST_SCALE ?= 10
aarch64: setup ## the suite cross-built for aarch64, under qemu
	@$(CONFIGURE) -B build/aarch64 --toolchain cmake/aarch64.cmake
	@$(BUILD) build/aarch64 -j $(JOBS)
	@$(CTEST) --test-dir build/aarch64 $(CTEST_FLAGS)

# The floors up to sync; later floors need no other kernel features.
UNIT = -L '^unit$$' -L '^(base|os|arch|stack|sched|sync)$$'
fallbacks: build ## the unit tests as on older kernels
	@WEFT_WITHOUT=membarrier,guard_install,epoll_pwait2 \
		$(CTEST) --test-dir build/release $(UNIT) $(CTEST_FLAGS)
	@WEFT_WITHOUT=guard_install,guard_pages \
		$(CTEST) --test-dir build/release $(UNIT) $(CTEST_FLAGS)

musl: setup ## the unit tests with musl in the place of glibc (musl-tools)
	@JOBS=$(JOBS) WERROR=$(WERROR) tools/musl.sh $(CTEST_FLAGS)

# Tests of code that depends on the layout of machine code: code ranges, unwinding, switches.
FLAGS_TESTS = os-text arch-unwind sched-switch sched-compact sched-panic pool-isolated_crash
flags: setup ## some tests with other compiler flags: -O3, -Os, sections for each function, LTO
	@set -e; mkdir -p build; flags() { \
		$(CONFIGURE) -B build/flags/$$1 -DCMAKE_C_COMPILER=$$2 -DCMAKE_C_FLAGS_RELEASE="-g $$3" > build/flags.log 2>&1 && \
		$(BUILD) build/flags/$$1 -j $(JOBS) --target $(addprefix test-,$(FLAGS_TESTS)) > build/flags.log 2>&1 || \
			{ cat build/flags.log; echo "does not build with $$2 $$3" >&2; exit 1; }; \
		for test in $(subst -,/,$(FLAGS_TESTS)); do \
			build/flags/$$1/tests/$$test > build/flags/$$1/log 2>&1 || [ $$? = 77 ] || \
				{ cat build/flags/$$1/log; echo "$$test fails with $$2 $$3" >&2; exit 1; }; \
		done; echo "passed with $$2 $$3"; }; \
	flags sections gcc "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections"; \
	flags lto gcc "-O2 -flto=auto"; \
	flags o3 gcc -O3; \
	flags os gcc -Os

valgrind: export WEFT_TEST_SCALE ?= 2
valgrind: setup ## the tests of tests/valgrind.txt under valgrind
	@$(CONFIGURE) -B build/valgrind -DWEFT_VALGRIND=ON
	@$(BUILD) build/valgrind -j $(JOBS)
	@$(CTEST) --test-dir build/valgrind $(CTEST_FLAGS)

coverage: setup ## lines and branches of src/ that the suite reaches: build/coverage/missing.txt
	@$(CONFIGURE) -B build/coverage -DWEFT_COVERAGE=ON -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_C_COMPILER=gcc -DCMAKE_C_FLAGS_DEBUG='-O0 -g -DWEFT_DEBUG=1'
	@$(BUILD) build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	@$(CTEST) --test-dir build/coverage $(CTEST_FLAGS) || echo "some tests failed: the figures lack the code after their failures"
	@tools/coverage.sh build/coverage

lint: setup ## run clang-format and clang-tidy
	@tools/format.sh --check
	@tools/lint.sh

format: ## format the code with clang-format
	@tools/format.sh

commits: ## check the subjects of the commits
	@tools/check-commits.sh

map: ## regenerate docs/design/map.md from the opening comments of the files
	@tools/map.sh

lib: setup ## build the installed parts: libraries and weft-serve, without the tests
	@$(CONFIGURE) -B build/release
	@$(BUILD) build/release -j $(JOBS) --target weft-install-parts

# Under sudo the calling user builds, and gets the install manifest: files of root in the build tree
# would break the user's next build.
AS_USER = $(if $(filter 0,$(shell id -u)),$(if $(SUDO_USER),sudo -u "$(SUDO_USER)" --))
install: ## install to PREFIX (default /usr/local); DESTDIR is honoured
	@$(AS_USER) $(MAKE) --no-print-directory lib
	@cmake --install build/release --prefix "$(PREFIX)"
	@$(if $(AS_USER),chown "$(SUDO_UID):$(SUDO_GID)" build/release/install_manifest*.txt)
	@ldconfig 2> /dev/null || true

uninstall: ## remove the files of make install from PREFIX
	@$(AS_USER) $(MAKE) --no-print-directory lib
	@tools/uninstall.sh build/release "$(PREFIX)"
	@$(if $(AS_USER),chown "$(SUDO_UID):$(SUDO_GID)" build/release/install_manifest*.txt)
	@ldconfig 2> /dev/null || true

# Reproducible: times are those of the commit, and gzip adds none.
VERSION = $(shell sed -n 's/^project.weft VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
dist: ## build/weft-VERSION.tar.gz of the last commit, with its checksum
	@mkdir -p build
	@git archive --format=tar --prefix=weft-$(VERSION)/ HEAD | gzip -n -9 > build/weft-$(VERSION).tar.gz
	@cd build && sha256sum weft-$(VERSION).tar.gz | tee weft-$(VERSION).tar.gz.sha256

try-bare: ## as root: build, install and use weft on bare Debian (SUITES='bullseye bookworm sid')
	@tools/try-bare.sh $(SUITES)

clean: ## remove all build trees
	@rm -rf build
