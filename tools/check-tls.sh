#!/usr/bin/env bash
# check-tls.sh: proves that weft keeps no address of thread-local storage.
#
#     check-tls.sh [library...]
#
# A fiber may continue on another thread after any switch. A compiler does not know that: it may
# keep the address of a thread-local variable, errno included, in a register across a call, and the
# fiber would then write to the storage of a thread that it has left. So weft has one thread-local
# word, weft__self, reached only by the instructions in arch/stack_switch.h, and reads errno only in
# src/os/linux/*.c. The HTTP server has no thread-local word, and reads errno only in
# src/http/sys*.c and tls.c. The script checks the machine code:
#
#   - no thread-local symbol but weft__self, in symbol tables and in relocations;
#   - no call of __tls_get_addr, no TLS descriptors;
#   - x86-64: each %fs: operand is %fs:(%reg), right after the load of weft__self's offset into that
#     register (or the stack protector's %fs:0x28); never the thread pointer itself, %fs:0x0;
#   - aarch64, where the thread pointer must be read: the access that uses it follows within six
#     instructions with no branch between, and the register is then overwritten or one that no call
#     keeps;
#   - __errno_location only in functions of those files.
#
# It checks its own build of the sources at -O2 -fPIC, plain and with link-time optimisation, as
# objects, shared library and program, and then the libraries given. The self-test runs first: code
# with a known fault must be refused, for the right reason.
#
# Environment: CC, and NM, OBJDUMP and READELF of GNU binutils.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
cc=${CC:-cc}
nm=${NM:-nm}
objdump=${OBJDUMP:-objdump}
readelf=${READELF:-readelf}
machine=$("$cc" -dumpmachine)
machine=${machine%%-*}
"$objdump" --version | grep -q GNU || { echo "$objdump is not that of GNU binutils"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readers=$work/readers # the functions that may read errno, one a line
: > "$readers"

# Prints each fault in one file (object, archive, shared library, program); true if there are none.
# Libraries and programs, except the HTTP server, must contain the sanctioned access: otherwise the
# check would look for the wrong thing.
check_file() { # file
    local faults=0 program=0 expect=1 slots
    case $1 in
    *.o | *http.so* | *http.a) expect=0 ;;
    esac
    # $d marks data in aarch64 objects, _TLS_MODULE_BASE_ is the linker's name for the start.
    if "$readelf" -sW "$1" 2> /dev/null |
        awk '$4 == "TLS" && $8 !~ /^weft__self(@|$)|^\$d|^_TLS_MODULE_BASE_$/ {
                print "  symbol " $8
                found = 1
            }
            END { exit !found }'; then
        echo "$1: thread-local symbols other than weft__self (above)"
        faults=1
    fi
    if "$readelf" -rW "$1" 2> /dev/null |
        grep -E 'R_(X86_64_DTPMOD64|X86_64_TLSDESC|AARCH64_TLSDESC|AARCH64_TLS_DTPMOD)'; then
        echo "$1: thread-local storage in a dynamic model (above)"
        faults=1
    fi
    if "$readelf" -lW "$1" 2> /dev/null | grep -q INTERP; then
        program=1
    fi
    # In a linked file the offset of weft__self lies in these slots of the GOT.
    slots=$("$readelf" -rW "$1" 2> /dev/null |
        awk '$3 == "R_X86_64_TPOFF64" { sub(/^0+/, "", $1); printf "%s ", $1 }')
    "$objdump" -drw --no-show-raw-insn "$1" |
        awk -v file="$1" -v machine="$machine" -v program="$program" -v slots="$slots" \
            -v expect="$expect" -v readers="$readers" -f "$work/check.awk" || faults=1
    return "$faults"
}

cat > "$work/check.awk" << 'END'
function fault(text) {
    print file ": " where ": " text ": " insn
    faults++
}

# The symbol of each relocation of a thread-local kind in the line, and the kind.
function check_relocations(line,    reloc, kind, symbol) {
    offset_load = 0
    while (match(line, /[0-9a-f]+: R_[A-Z0-9_]+\t[^ \t]+/)) {
        reloc = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/^[0-9a-f]+: /, "", reloc)
        kind = symbol = reloc
        sub(/\t.*/, "", kind)
        sub(/.*\t/, "", symbol)
        sub(/[-+]0x[0-9a-f]+$/, "", symbol)
        if (kind !~ /TLS|TPOFF|TPREL/)
            continue
        if (symbol != "weft__self")
            fault("thread-local symbol " symbol)
        else if (kind !~ /^R_X86_64_(GOTTPOFF|TPOFF32)$|^R_AARCH64_TLS(IE|LE)_/)
            fault("thread-local model of " kind)
        if (kind == "R_X86_64_GOTTPOFF")
            offset_load = 1
        else if (kind == "R_X86_64_TPOFF32")
            direct = 1
    }
}

function check_x86_64(    operand, register, target) {
    if (!offset_load && match(insn, /# [0-9a-f]+/)) {
        target = substr(insn, RSTART + 2, RLENGTH - 2)
        if (target in slot)
            offset_load = 1
    }
    if (pending != "" && index(insn, "%fs:(" pending ")") == 0 &&
        index(insn, "%fs:0x0(" pending ")") == 0)
        fault("the offset of weft__self was loaded and is not used at once")
    if (insn ~ /(rd|wr)fsbase/)
        fault("the thread pointer is touched")

    if (match(insn, /%fs:[^ ,]*/)) {
        operand = substr(insn, RSTART, RLENGTH)
        register = operand
        sub(/^%fs:(0x0)?\(/, "", register) # a base of rbp or r13 is encoded with a displacement
        sub(/\)$/, "", register)
        if (operand == "%fs:0x28") {
            # the stack protector: the same value on every thread
        } else if (operand ~ /^%fs:(0x0)?\(/ && register == pending) {
            accesses++
        } else if (operand ~ /^%fs:(0x0)?\(/ && program && relaxed == register) {
            accesses++
        } else if (direct && operand ~ /^%fs:0x[0-9a-f]+$|^%fs:0x0$/) {
            accesses++
        } else {
            fault("an access to thread-local storage that is not the sanctioned one")
        }
    }

    pending = ""
    if (offset_load) {
        if (match(insn, /^mov +[^ ]*\(%rip\),%r[a-z0-9]+/)) {
            pending = substr(insn, RSTART, RLENGTH)
            sub(/.*,/, "", pending)
        } else {
            fault("the offset of weft__self is used to build an address")
        }
    }
    # In a program the linker turns the load of the offset into an immediate.
    relaxed = ""
    if (match(insn, /^mov +\$0xf+[0-9a-f]+,%r[a-z0-9]+/)) {
        relaxed = substr(insn, RSTART, RLENGTH)
        sub(/.*,/, "", relaxed)
    }
}

function check_aarch64(    operands, target, i) {
    operands = insn
    sub(/^[^ ]+ */, "", operands)
    target = operands
    sub(/[, ].*/, "", target)
    if (insn ~ /^msr +tpidr_el0/)
        fault("the thread pointer is touched")
    if (insn ~ /^mrs .*tpidr_el0/) {
        if (left)
            fault("the thread pointer is read twice before it is used")
        base = target
        left = 6
        return
    }
    if (!left)
        return
    left--
    if (insn ~ /^(b|bl|br|blr|b\.[a-z]+|bc\.[a-z]+|cbz|cbnz|tbz|tbnz|ret|braa|blraa|retaa|svc) / ||
        insn ~ /^ret/) {
        fault("a branch while the thread pointer is in " base)
        left = 0
    } else if (insn ~ /^(ld|st)/ && operands ~ ("\\[" base "[],]")) {
        left = 0
        if (!(insn ~ /^ld/ && target == base) && base !~ /^x([0-9]|1[0-8])$/)
            fault("the thread pointer stays in " base ", which calls keep")
        else
            accesses++
    } else if (left == 0) {
        fault("the thread pointer is in " base " and not used at once")
    }
}

BEGIN {
    while ((getline line < readers) > 0)
        is_reader[line] = 1
    slot_count = split(slots, list, " ")
    for (i = 1; i <= slot_count; i++)
        slot[list[i]] = 1
}

/^[0-9a-f]+ <.*>:$/ {
    if (left)
        fault("the thread pointer is in " base " at the end of a function")
    left = 0
    pending = relaxed = ""
    where = $2
    gsub(/[<>:]/, "", where)
    base_name = where
    sub(/\..*/, "", base_name) # .cold, .part.0, .constprop.0 belong to their function
    next
}

/^ *[0-9a-f]+:\t/ {
    line = $0
    sub(/^ *[0-9a-f]+:\t/, "", line)
    insn = line
    sub(/\t[0-9a-f]+: R_.*/, "", insn)
    gsub(/[ \t]+/, " ", insn)
    direct = 0
    check_relocations(line)
    if (line ~ /__tls_get_addr/)
        fault("__tls_get_addr")
    if (line ~ /__errno_location/ && where !~ /@plt$/ && !(base_name in is_reader))
        fault("errno outside src/os/linux/*.c and its like")
    if (machine == "x86_64")
        check_x86_64()
    else
        check_aarch64()
}

END {
    if (expect && !accesses) {
        print file ": no access to weft__self found at all: the check does not see what it should"
        faults++
    }
    exit faults > 0
}
END

flags=(-std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -fasynchronous-unwind-tables
    -fno-semantic-interposition "-I$root/src" "-I$root/include")

# ---- the self-test ---------------------------------------------------------------------------

refuses() { # name, part of the message, compiler flags; the code on stdin
    local file=$work/$1.o output
    # shellcheck disable=SC2086
    "$cc" "${flags[@]}" ${3:-} -x c - -c -o "$file"
    if output=$(check_file "$file"); then
        echo "self-test: $1 was not refused"
        exit 1
    elif [[ $output != *"$2"* ]]; then
        echo "self-test: $1 was refused for another reason: $output"
        exit 1
    fi
}

self_test() {
    local self='extern __thread void *weft__self __attribute__((visibility("hidden")));'
    refuses address-across-a-call 'symbol counter' << 'END'
__thread int counter;
void park(void);
void bad(void) { int *kept = &counter; *kept = 1; park(); *kept = 2; }
END
    refuses address-in-the-initial-exec-model 'symbol counter' -ftls-model=initial-exec << 'END'
__thread int counter;
void park(void);
void bad(void) { int *kept = &counter; *kept = 1; park(); *kept = 2; }
END
    refuses dynamic-model-of-the-word 'model' '-ftls-model=global-dynamic' << 'END'
extern __thread void *weft__self;
void *bad(void) { return weft__self; }
END
    refuses address-of-the-word 'weft__bad' -ftls-model=initial-exec << END
$self
void weft__park(void **word);
void weft__bad(void) { weft__park(&weft__self); weft__park(&weft__self); }
END
    refuses errno-across-a-call 'errno outside' << 'END'
#include <errno.h>
void park(void);
int bad(void) { errno = 0; park(); return errno; }
END
    if [ "$machine" = x86_64 ]; then
        refuses thread-pointer 'not the sanctioned' << 'END'
void *bad(void) { void *kept; __asm__ volatile("mov %%fs:0, %0" : "=r"(kept)); return kept; }
END
        refuses offset-from-elsewhere 'not the sanctioned' << 'END'
long bad(long offset) { long v; __asm__("mov %%fs:(%1), %0" : "=r"(v) : "r"(offset)); return v; }
END
        refuses offset-not-used 'not used at once' << 'END'
long bad(void) { long v; __asm__("mov weft__self@gottpoff(%%rip), %0\n\tnop" : "=r"(v)); return v; }
END
    else
        refuses thread-pointer 'branch' << 'END'
void *bad(void) { void *kept; __asm__ volatile("mrs %0, tpidr_el0" : "=r"(kept)); return kept; }
END
        refuses thread-pointer-in-a-kept-register 'which calls keep' << 'END'
void bad(void) { __asm__ volatile("mrs x19, tpidr_el0\n\tldr x0, [x19, x1]" ::: "x0", "x19"); }
END
    fi

    # The sanctioned sequence passes.
    # shellcheck disable=SC2086
    "$cc" "${flags[@]}" -x c - -c -o "$work/good.o" << 'END'
#include "arch/stack_switch.h"
void park(void);
void *good(void) { thread_word_set(0); park(); return thread_word(); }
END
    check_file "$work/good.o" || { echo "self-test: the sanctioned sequence was refused"; exit 1; }
}

# ---- the build -------------------------------------------------------------------------------

compile_sources() { # directory, more flags
    local source object
    local sources
    mapfile -t sources < <(find "$root/src" -name '*.c')
    for source in "${sources[@]}" "$root/src/arch/$machine.S"; do
        [ "$source" != "$root/src/http/$without" ] || continue
        object=$1/${source#"$root"/src/}.o
        mkdir -p "${object%/*}"
        # shellcheck disable=SC2086
        "$cc" "${flags[@]}" ${2:-} -c "$source" -o "$object"
    done
}

check_all() { # files
    local file failed=0
    for file in "$@"; do
        check_file "$file" || failed=1
    done
    return "$failed"
}

self_test

# Only one of tls.c and tls_none.c is built.
without=tls_none.c
if ! printf '#include <openssl/ssl.h>\n' | "$cc" -E -x c - > /dev/null 2>&1; then
    echo "no headers of OpenSSL: src/http/tls.c is left out"
    without=tls.c
fi

compile_sources "$work/plain"
{ find "$work/plain/os/linux" -name '*.o'; find "$work/plain/http" -name 'sys*.o' -o -name tls.c.o; } |
    xargs "$nm" --defined-only | awk '$2 ~ /^[tT]$/ { print $3 }' > "$readers"
mapfile -t plain < <(find "$work/plain" -name '*.o' -not -path '*/http/*')
mapfile -t plain_http < <(find "$work/plain/http" -name '*.o')
cp "$root/src/weft.map" "$work/weft.map" # its path may have a space
link="-shared -Wl,--version-script=$work/weft.map -pthread -ldl"
# shellcheck disable=SC2086
"$cc" -O2 "${plain[@]}" -o "$work/plain.so" $link
built=("${plain[@]}" "${plain_http[@]}" "$work/plain.so")

if echo 'int main(void) { return 0; }' | "$cc" -flto -x c - -o "$work/probe" 2> /dev/null; then
    compile_sources "$work/lto" -flto
    mapfile -t lto < <(find "$work/lto" -name '*.o' -not -path '*/http/*')
    mapfile -t lto_http < <(find "$work/lto/http" -name '*.o')
    "$cc" -O2 -fPIC -flto "${lto_http[@]}" -o "$work/lto-http.so" -shared \
        "-Wl,--version-script=$root/src/weft-http.map"
    # shellcheck disable=SC2086
    "$cc" -O2 -fPIC -flto "${lto[@]}" -o "$work/lto.so" $link
    # shellcheck disable=SC2086
    "$cc" "${flags[@]}" -flto "$root/examples/million.c" "${lto[@]}" -o "$work/lto-program" -pthread -ldl
    built+=("$work/lto.so" "$work/lto-program" "$work/lto-http.so")
else
    echo "this compiler has no link-time optimisation: that build is left out"
fi

check_all "${built[@]}" "$@"
echo "thread-local storage: ${#built[@]} built files and $# given files use only weft__self, by value"
