# mlxcel: one non-recursive GNU Makefile. `make help` lists the targets.
#
# Sources are found by folder: src/<module>/*.c goes into the library, src/cli/*.c into the program, tests/<kind>/test_*.c
# each into one test program, tests/fuzz/fuzz_*.c each into one fuzz target. A kernel file's suffix names its instruction
# set (_avx2.c, _neon.c, ...) and so its flags: see ISA below.

MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
.SUFFIXES:
.SECONDARY:
.DEFAULT_GOAL := all

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
AR := ar
Q  := $(if $(V),,@)
say = $(Q)echo "  $(1) $@";
PYTHON ?= python3

# --- variants -------------------------------------------------------------------------------------------------------
VARIANT  := $(if $(filter 1,$(SAN)),san,$(if $(filter 1,$(TSAN)),tsan,$(if $(filter 1,$(SIMDE)),simde,release)))
OPT_san  := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -fno-omit-frame-pointer -fsanitize=thread
OPT_simde   := -O1# here and below: for tests of kernels alone, of which -O2 takes a compiler minutes
OPT_aarch64 := -O1
OPT      := $(or $(OPT_$(VARIANT)),-O2)
B        := build/$(VARIANT)

# --- flags ----------------------------------------------------------------------------------------------------------
PKGS     := jansson libpcre2-8 libutf8proc libmicrohttpd libxxhash
CLI_PKGS := libedit
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef \
        -Wformat=2 -Wno-format-truncation -Wconversion -Wno-sign-conversion
CPPFLAGS += -Isrc -Iinclude -Itests -D_GNU_SOURCE -DMLXCEL_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS) $(CLI_PKGS) 2>/dev/null)
CFLAGS   += -std=gnu17 $(OPT) -g $(WARN) -ffp-contract=off -fvisibility=hidden -fPIC -fstack-protector-strong -MMD -MP
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread
LDFLAGS  += $(OPT) -Wl,-z,relro,-z,now
CPPFLAGS += $(if $(filter release,$(VARIANT)),-D_FORTIFY_SOURCE=2)
CFLAGS   += $(if $(findstring clang,$(CC)),-Wno-unknown-warning-option) $(if $(filter 1,$(WERROR)),-Werror)

# Kernels on vec.h's lanes are not instrumented: it takes a compiler minutes a file, and kernelcheck guards their buffers
# by pages.
NO_SAN := $(if $(findstring -fsanitize,$(OPT)),-fno-sanitize=all)
KERNELS := $(addprefix src/cpu/%,_scalar.c _avx2.c _avx512.c _avx512vnni.c _avx512bf16.c _neon.c _neondot.c)

ARCH := $(shell uname -m)
ISA_avx2       := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512     := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512
ISA_avx512vnni := $(ISA_avx512) -mavx512vnni
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISA_neon       := -march=armv8-a $(if $(findstring clang,$(CC)),,-fno-schedule-insns)# GCC schedules sums into spills
ISA_neondot    := $(ISA_neon) -march=armv8.2-a+dotprod
ifeq ($(SIMDE),1)
CPPFLAGS += -DMLXCEL_SIMDE
CFLAGS   += -Wno-psabi
EMULATE  := avx512%
endif
isa = $(ISA_$(patsubst $(EMULATE),avx2,$(lastword $(subst _, ,$(basename $(notdir $(1)))))))
# Compiled quickly rather than well: most tests; in the variants that are for kernels alone, what is no kernel.
LIGHT := tests/unit/% tests/engine/% tests/fault/% $(if $(filter simde aarch64,$(VARIANT)),$(foreach m,api adapt chat cli \
         convert hub sample server text,src/$m/%))
light = $(if $(filter $(LIGHT),$(1)),$(if $(filter release,$(VARIANT)),-O1,-O0))

# --- sources --------------------------------------------------------------------------------------------------------
LEVELS_x86_64  := %_avx2.c %_avx512.c %_avx512vnni.c %_avx512bf16.c
LEVELS_aarch64 := %_neon.c %_neondot.c
OTHER_LEVELS   := $(filter-out $(LEVELS_$(ARCH)),$(LEVELS_x86_64) $(LEVELS_aarch64))
LIB_SRC := $(filter-out src/cli/% src/cuda/% $(OTHER_LEVELS),$(wildcard src/*/*.c))
CLI_SRC := $(wildcard src/cli/*.c)
# Objects that do not differ in the release variant are its: the kernels, as they are not instrumented; what is not emulated.
SAME_san   := $(KERNELS)
SAME_simde := $(filter-out src/cpu/level.c %_avx512.c %_avx512vnni.c %_avx512bf16.c,$(LIB_SRC)) tests/%
obj = $(foreach f,$(1),$(if $(filter $(SAME_$(VARIANT)),$(f)),build/release,$(B))/$(f:.c=.o))
LIB_OBJ := $(call obj,$(LIB_SRC))
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)
LIB     := $(B)/libmlxcel.a
SONAME  := libmlxcel.so.0
BIN     := $(B)/mlxcel
TESTS   := $(patsubst %.c,$(B)/%,$(wildcard tests/*/test_*.c))
CHECKERS := $(patsubst %.c,$(B)/%,$(wildcard tests/families/check_*.c))# run by tests in Python
KCHECK  := $(B)/tests/kernel/kernelcheck
KCHECK_OBJ := $(call obj,$(wildcard tests/kernel/*.c))
SHARED_OBJ := $(filter-out $(B)/%,$(LIB_OBJ) $(KCHECK_OBJ) $(call obj,$(patsubst $(B)/%,%.c,$(TESTS) $(CHECKERS))))

.PHONY: all shared help setup demo programs objects python check check-now check-build check-threads check-emulated emulated neon fuzz fuzz-run \
        text-fuzz lora-fuzz family-fuzz lint tidy layers format bench bench-compare bench-lora bench-text bench-templates docs install clean
all: $(LIB) $(BIN) $(if $(filter release,$(VARIANT)),build/mlxcel)

help: ; @sed -n 's/^## //p' Makefile

## make            build the library and build/mlxcel      SAN=1: address+undefined sanitizers   TSAN=1: thread sanitizer
##                 SIMDE=1: AVX-512 kernels emulated, to test them on any x86-64 machine
##                 V=1: whole command lines
## make setup      install the Debian packages that the build and the tests need
setup: ; @tools/setup --tests

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(CPPFLAGS) $(CFLAGS) $(call light,$<) $(call isa,$<) $(if $(filter $(KERNELS),$<),$(NO_SAN)) -c -o $@ $<

$(SHARED_OBJ): | $(if $(SHARED_OBJ),shared)
shared: ; @$(MAKE) -s --no-print-directory SAN= SIMDE= $(SHARED_OBJ)
$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(call say,AR) $(AR) rcs $@ $^
$(B)/$(SONAME): $(LIB_OBJ)
	$(call say,LD) $(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -o $@ $^ $(LDLIBS)
$(BIN): $(CLI_OBJ) $(LIB)
	$(call say,LD) $(CC) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs $(CLI_PKGS) 2>/dev/null) $(LDLIBS)
build/mlxcel: $(BIN)
	@ln -sf $(VARIANT)/mlxcel $@

# --- tests ----------------------------------------------------------------------------------------------------------
# tests/fault programs see every allocation of the library through --wrap.
FAULT_WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=aligned_alloc,--wrap=mmap
$(B)/tests/%: $(dir $(call obj,tests/x.c))%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(LDFLAGS) $(if $(findstring /fault/,$@),$(FAULT_WRAP)) -o $@ $^ -lcmocka $(LDLIBS)
$(KCHECK): $(KCHECK_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(LDFLAGS) -o $@ $(filter-out $(UNLINKED),$^) $(LDLIBS)

# A fuzz target runs its corpus as a plain test when linked with driver.c; VARIANT fuzz links libFuzzer instead.
FUZZ := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_MAIN := $(if $(filter fuzz,$(VARIANT)),,$(B)/tests/fuzz/driver.o)
$(FUZZ): %: %.o $(FUZZ_MAIN) $(LIB)
	$(call say,LD) $(CC) $(LDFLAGS) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $^ $(LDLIBS)

# Our sides of bench/text and bench/templates.
$(B)/bench/%: $(B)/bench/%.o $(LIB)
	$(call say,LD) $(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The examples see only the public header.
EXAMPLES := $(patsubst %.c,$(B)/%,$(wildcard examples/*.c))
$(EXAMPLES): $(B)/%: %.c include/mlxcel.h $(LIB)
	@mkdir -p $(@D)
	$(CC) -Iinclude -std=c11 $(OPT) $(WARN) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS)

## make programs   the library, the programs and all test programs of one variant
programs: all $(TESTS) $(KCHECK) $(FUZZ) $(EXAMPLES) $(CHECKERS)

# Virtual environments: build/venv-NAME has the packages of requirements.txt that are marked with NAME.
VENV := build/venv-check
build/venv-%/.done: tools/requirements.txt
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	grep '# .*\b$*\b' $< | $(@D)/bin/pip install -q --disable-pip-version-check --no-deps -r /dev/stdin
	@touch $@
python: $(VENV)/.done

## make check      set up, build, run all tests; the last line counts them
check:
	@tools/setup --tests
	@$(MAKE) --no-print-directory check-now

# Tests of kernels whose instructions an x86-64 machine lacks: AVX-512 by emulation; NEON under qemu-user, on a core
# without dot products and on one with them, which has only its own matrix products. CASES: percent of the random cases.
CASES        ?= 30
AVX512_CHECK := build/simde/tests/kernel/kernelcheck
AVX512_TESTS := $(addprefix build/simde/tests/,arch/test_logits engine/test_order_law_lora)
AVX512_LONG  := build/simde/tests/engine/test_order_law
NEON_CHECK   := build/aarch64/tests/kernel/kernelcheck
NEON_TESTS    = 'qemu-aarch64 -cpu cortex-a53 $(NEON_CHECK) --level neon --cases $(CASES)' \
                'qemu-aarch64 -cpu max $(NEON_CHECK) --level neondot --filter linear'
CAN_NEON      = $(and $(shell command -v aarch64-linux-gnu-gcc),$(shell command -v qemu-aarch64))
EMULATED      = $(if $(filter x86_64,$(ARCH)),$(AVX512_TESTS) '$(AVX512_CHECK) --cases $(CASES)' $(if $(CAN_NEON),$(NEON_TESTS)))
SAN_TESTS     = $(patsubst $(B)/%,build/san/%,$(TESTS) $(FUZZ))
check-now: check-build
	@tests/run --python $(VENV)/bin/python --bin $(B) $(TESTS) $(KCHECK) $(SAN_TESTS) $(EMULATED)
check-build: all $(TESTS) $(KCHECK) $(EXAMPLES) $(CHECKERS) python layers
	@$(MAKE) --no-print-directory SAN=1 $(SAN_TESTS)
	@$(if $(EMULATED),$(MAKE) --no-print-directory emulated)

## make check-emulated   kernels whose instructions this machine lacks, all cases: AVX-512 by SIMDe, NEON under qemu-user
check-emulated: CASES := 100
check-emulated: emulated
	@tests/run --no-pytest $(EMULATED) $(AVX512_LONG)
emulated:
	@$(MAKE) --no-print-directory SIMDE=1 $(AVX512_CHECK) $(AVX512_TESTS) $(AVX512_LONG)
	@$(if $(CAN_NEON),$(MAKE) --no-print-directory neon)
neon:
	@$(MAKE) --no-print-directory CC=aarch64-linux-gnu-gcc ARCH=aarch64 VARIANT=aarch64 LDLIBS='-static -lm -pthread' \
	    UNLINKED=%/roof.o objects $(NEON_CHECK)
objects: $(LIB_OBJ) $(CLI_OBJ) $(KCHECK_OBJ)

## make check-threads   the tests of what runs on several threads, under the thread sanitizer
THREADED := $(addprefix build/tsan/tests/,unit/test_pool unit/test_backend engine/test_engine \
            engine/test_order_law engine/test_order_law_lora engine/test_api_lora)
check-threads: python
	@$(MAKE) --no-print-directory TSAN=1 build/tsan/mlxcel $(THREADED)
	@for t in $(THREADED); do setarch -R $$t || exit 1; done # -R: it knows addresses by where they are
	@MLXCEL_BIN=build/tsan/mlxcel setarch -R $(VENV)/bin/python -m pytest -q tests/server -k 'not cut_while' # a page that is mended under a reader

## make fuzz T=60  kernelcheck of a new seed; every fuzz target for T seconds with libFuzzer (clang), whose new inputs stay under build/fuzz
T ?= 60
fuzz: $(KCHECK)
	@$(KCHECK) --seed $$(date +%s)
	@$(MAKE) --no-print-directory CC=clang-14 VARIANT=fuzz \
	    OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all' fuzz-run
fuzz-run: $(FUZZ)
	@tests/fuzz/run $(T) $(FUZZ)

## make text-fuzz lora-fuzz family-fuzz T=300   random tokenizers, texts and templates; adapters, also damaged ones; models
##                 of every family: against the reference libraries, live; ARGS='--seed N' repeats
text-fuzz: $(B)/tests/textfuzz/jinja_lines
text-fuzz lora-fuzz family-fuzz: %-fuzz: $(BIN) build/venv-%/.done
	@build/venv-$*/bin/python tests/$*fuzz/$*fuzz.py --bin $(B) -T $(T) $(ARGS)

## make lint       the layer check, both compilers without a warning, clang-tidy of what changed since it was clean
layers:
	@tools/check-layers
lint: layers
	@$(MAKE) --no-print-directory WERROR=1 programs
	@$(MAKE) --no-print-directory -k -Otarget WERROR=1 CC=clang-14 VARIANT=clang programs tidy
	@$(MAKE) --no-print-directory WERROR=1 CC='clang-14 --target=aarch64-linux-gnu' ARCH=aarch64 VARIANT=clang-arm objects
tidy: $(patsubst %.c,$(B)/%.tidy,$(filter-out $(LEVELS_$(ARCH)),$(LIB_SRC)) $(CLI_SRC))
$(B)/%.tidy: $(B)/%.o .clang-tidy # the object is newer than the source and every header
	@echo "  TIDY $*.c"
	$(Q)found=$$(clang-tidy-14 --quiet $*.c -- -std=gnu17 $(CPPFLAGS) 2>&1) && touch $@ || { echo "$$found"; exit 1; }

## make docs       docs/cli.md, the reference of the command line, and README's table of families
docs: $(BIN)
	@mkdir -p docs
	$(BIN) help --markdown > docs/cli.md
	tools/update-readme $(BIN)

## make format     clang-format over all C files
format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

# --- the product ----------------------------------------------------------------------------------------------------
## make demo       set up, build, get the default model and answer a prompt
DEMO_PROMPT ?= Why is the sky blue?
demo:
	@tools/setup
	@$(MAKE) --no-print-directory all
	@tools/get-default-model
	build/mlxcel run --temp 0 -n 100 -p "$(DEMO_PROMPT)"

## make bench bench-compare   beside llama.cpp on the default model: all tables, or quick (idle machine; builds the peer once); ARGS='--help'
## make bench-lora   what adapters cost
bench bench-compare bench-lora: all $(KCHECK)
	@bench/$(or $(patsubst bench-%,%,$(filter bench-%,$@)),all) $(ARGS)

## make bench-text bench-templates   the same for tokenizers (Hugging Face's) and chat templates (jinja2); ARGS='--help'
bench-text bench-templates: bench-%: $(B)/bench/%_ours build/venv-text/.done
	@build/venv-text/bin/python bench/$* --program $< $(ARGS)

## make install    DESTDIR= PREFIX=/usr/local: program, server link, libraries, header, pkg-config file
install: all $(B)/$(SONAME)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/mlxcel
	ln -sf mlxcel $(DESTDIR)$(PREFIX)/bin/mlxcel-server
	install -m 644 $(LIB) $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(B)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libmlxcel.so
	install -m 644 include/mlxcel.h $(DESTDIR)$(PREFIX)/include/
	printf 'prefix=%s\nName: mlxcel\nDescription: MLX-format language models on Linux\nVersion: %s\n' '$(PREFIX)' '$(VERSION)' \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/mlxcel.pc
	printf 'Cflags: -I$${prefix}/include\nLibs: -L$${prefix}/lib -lmlxcel\nLibs.private: %s\n' \
	    "$$(pkg-config --libs $(PKGS)) -lm -pthread" >> $(DESTDIR)$(PREFIX)/lib/pkgconfig/mlxcel.pc

clean: ; rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
