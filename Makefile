# mlxcel: one non-recursive GNU Makefile. `make help` lists the targets.
#
# Sources are found by folder: src/<module>/*.c goes into the library, src/cli/*.c into the program, tests/<kind>/test_*.c
# each into one test program, tests/fuzz/fuzz_*.c each into one fuzz target. A kernel file's suffix names its instruction
# set (_avx2.c, _avx512.c, ...) and so its flags: see ISA below.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DEFAULT_GOAL := all

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
AR := ar
PYTHON ?= python3

# --- variants -------------------------------------------------------------------------------------------------------
VARIANT := release
OPT     := -O2
ifeq ($(SAN),1)
VARIANT := san
OPT     := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
endif
ifeq ($(TSAN),1)
VARIANT := tsan
OPT     := -O1 -fno-omit-frame-pointer -fsanitize=thread
endif
ifeq ($(SIMDE),1)
VARIANT := simde
endif
B := build/$(VARIANT)

# --- flags ----------------------------------------------------------------------------------------------------------
PKGS     := jansson libpcre2-8 libutf8proc libmicrohttpd libxxhash
CLI_PKGS := libedit
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef \
        -Wformat=2 -Wno-format-truncation -Wconversion -Wno-sign-conversion
CPPFLAGS += -Isrc -Iinclude -D_GNU_SOURCE -DMLXCEL_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS) $(CLI_PKGS) 2>/dev/null)
CFLAGS   += -std=gnu17 $(OPT) -g $(WARN) -ffp-contract=off -fvisibility=hidden -fPIC -fstack-protector-strong -MMD -MP
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread
LDFLAGS  += $(OPT) -Wl,-z,relro,-z,now
ifeq ($(VARIANT),release)
CPPFLAGS += -D_FORTIFY_SOURCE=2
endif
ifeq ($(WERROR),1)
CFLAGS += -Werror
endif

ARCH := $(shell uname -m)
ISA_avx2       := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512     := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512
ISA_avx512vnni := $(ISA_avx512) -mavx512vnni
ifeq ($(SIMDE),1)
CPPFLAGS += -DMLXCEL_SIMDE
CFLAGS   += -Wno-psabi
ISA_avx512     := $(ISA_avx2)
ISA_avx512vnni := $(ISA_avx2)
endif
isa = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $(1))))))

# --- sources --------------------------------------------------------------------------------------------------------
LIB_SRC := $(filter-out src/cli/% src/cuda/%,$(wildcard src/*/*.c))
ifneq ($(ARCH),x86_64)
LIB_SRC := $(filter-out %_avx2.c %_avx512.c %_avx512vnni.c,$(LIB_SRC))
endif
CLI_SRC := $(wildcard src/cli/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)
LIB     := $(B)/libmlxcel.a
SONAME  := libmlxcel.so.0
BIN     := $(B)/mlxcel
TESTS   := $(patsubst %.c,$(B)/%,$(wildcard tests/*/test_*.c))
KCHECK  := $(patsubst %.c,$(B)/%,$(wildcard tests/kernel/kernelcheck.c))

.PHONY: all help setup demo check test lint format install clean fuzz bench docs
all: $(LIB) $(if $(CLI_SRC),$(BIN) build/mlxcel)

help:
	@sed -n 's/^## //p' Makefile

## make            build the library and build/mlxcel      SAN=1: address+undefined sanitizers   TSAN=1: thread sanitizer
##                 SIMDE=1: AVX-512 kernels emulated, to test them on any x86-64 machine
## make setup      install the Debian packages that the build and the tests need
setup:
	@tools/setup

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(call isa,$<) -c -o $@ $<

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/$(SONAME): $(LIB_OBJ)
	$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -o $@ $^ $(LDLIBS)

$(BIN): $(CLI_OBJ) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs $(CLI_PKGS) 2>/dev/null) $(LDLIBS)

build/mlxcel: $(BIN)
	@ln -sf $(VARIANT)/mlxcel $@

# --- tests ----------------------------------------------------------------------------------------------------------
# tests/fault programs see every allocation of the library through --wrap.
FAULT_WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=aligned_alloc
$(B)/tests/%: $(B)/tests/%.o $(LIB)
	$(CC) $(LDFLAGS) $(if $(findstring /fault/,$@),$(FAULT_WRAP)) -o $@ $^ -lcmocka $(LDLIBS)
