#!/usr/bin/env bash
# check-floors.sh: checks the dependencies between the floors of src/.
#
#     check-floors.sh [root]
#
#   1. A file in src/<floor>/ includes only headers of its own floor and of the floors listed before
#      it in tools/folders.txt, written as "floor/header.h".
#   2. Only src/os/ includes the headers of the system in `system_headers` below. libweft-http
#      (src/http/) has a seam of its own: sys*.c and tls.c. Only tls.c includes OpenSSL.
#   3. Only src/base/atomic.h uses atomic builtins or atomic types.
#   4. src/http/ includes the public headers of libweft only, and base/atomic.h.
#   5. No identifier of a lower floor has a word of a higher one (`floor_words`), alone or between
#      underscores: what a higher floor does for a lower one goes through a hook that names neither.
#      `same_words` lists what means something else, with the reason.
#
# The self-test runs first: a sound tree, then one tree for each kind of fault.
set -euo pipefail

system_headers="sys/mman.h sys/epoll.h pthread.h threads.h semaphore.h sys/syscall.h time.h sys/time.h
    stdlib.h malloc.h unistd.h sched.h signal.h linux/* sys/eventfd.h sys/timerfd.h fcntl.h
    stdatomic.h"

# The floor that a word belongs to, and its words; the plural counts too.
floor_words="
sched fiber processor runnext
sync chan rwmutex wg cond group limiter ticker
pool pool worker task submitter shard
net conn listener dial
http http response route"

# File, words that are allowed there, why.
same_words="
src/os/linux/thread.c task    the threads of a process, in /proc/self/task
src/os/linux/mutex_watch.c listener    what hears of each lock and unlock
src/os/linux/spawn.c group    the process group of a child
src/os/spawn.h group    the same
src/sched/check/deadlock.c group    fibers that a report shows together
src/sched/runtime/cpus.c group    the control group that limits the CPUs
src/sync/object_pool.c pool,shard    the object pool and its part of a processor"

# Prints each fault as file:line: text; true if there are none.
check() { # root
    local files
    files=$(cd "$1" && find src -mindepth 2 -name '*.[chS]' | LC_ALL=C sort)
    [ -n "$files" ] || { echo "$1/src: no files"; return 1; }
    # shellcheck disable=SC2086
    (cd "$1" && awk -v floors="$floors" -v system_headers="$system_headers" \
        -v floor_words="$floor_words" -v same_words="$same_words" '
        function fault(text) {
            print FILENAME ":" FNR ": " text
            faults++
        }
        function is_system(header,    i) {
            for (i = 1; i <= system_count; i++)
                if (header == system_header[i] || (system_header[i] ~ /\*$/ &&
                        index(header, substr(system_header[i], 1, length(system_header[i]) - 1)) == 1))
                    return 1
            return 0
        }
        BEGIN {
            floor_count = split(floors, floor_name, /[ \n]+/)
            for (i = 1; i <= floor_count; i++)
                level[floor_name[i]] = i
            system_count = split(system_headers, system_header, /[ \n]+/)
            line_count = split(floor_words, line, "\n")
            for (i = 1; i <= line_count; i++) {
                word_count = split(line[i], word, " ")
                for (j = 2; j <= word_count; j++)
                    owner[word[j]] = owner[word[j] "s"] = word[1]
            }
            line_count = split(same_words, line, "\n")
            for (i = 1; i <= line_count; i++) {
                split(line[i], part, " ")
                word_count = split(part[2], word, ",")
                for (j = 1; j <= word_count; j++)
                    same[part[1] " " word[j]] = same[part[1] " " word[j] "s"] = 1
            }
        }
        # The line without comments and strings.
        function code(text,    result, i, c) {
            result = ""
            for (i = 1; i <= length(text); i++) {
                c = substr(text, i, 1)
                if (in_comment) {
                    if (substr(text, i, 2) == "*/") {
                        in_comment = 0
                        i++
                    }
                } else if (substr(text, i, 2) == "/*") {
                    in_comment = 1
                    i++
                } else if (c == "\"") {
                    for (i++; i <= length(text) && substr(text, i, 1) != "\""; i++)
                        if (substr(text, i, 1) == "\\")
                            i++
                } else {
                    result = result c
                }
            }
            return result
        }
        function check_words(text,    identifier, word, count, i) {
            while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
                identifier = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                count = split(tolower(identifier), word, "_")
                for (i = 1; i <= count; i++)
                    if ((word[i] in owner) && level[owner[word[i]]] > level[own] &&
                            !((FILENAME " " word[i]) in same))
                        fault(own " may not speak of " owner[word[i]] ": " identifier)
            }
        }
        FNR == 1 {
            split(FILENAME, part, "/")
            own = part[2]
            in_comment = 0
            if (!(own in level))
                fault("src/" own " is not listed in tools/folders.txt")
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            header = $0
            sub(/^[^"]*"/, "", header)
            sub(/".*/, "", header)
            other = header
            sub(/\/.*/, "", other)
            if (other == header || !(other in level))
                fault("\"" header "\" is not written as \"floor/header.h\"")
            else if ((own in level) && level[other] > level[own])
                fault(own " may not include " other ": \"" header "\"")
            else if (own == "http" && other != "http" && header != "base/atomic.h")
                fault("http may include public headers only, not \"" header "\"")
        }
        /^[ \t]*#[ \t]*include[ \t]*</ {
            header = $0
            sub(/^[^<]*</, "", header)
            sub(/>.*/, "", header)
            if (own == "http" && is_system(header) && FILENAME !~ /^src\/http\/(sys[a-z_]*|tls)\.c$/)
                fault("only sys*.c and tls.c of src/http/ may include <" header ">")
            else if (own != "http" && own != "os" && is_system(header))
                fault("only src/os/ may include <" header ">")
            if (header ~ /^openssl\// && FILENAME != "src/http/tls.c")
                fault("only src/http/tls.c may include <" header ">")
        }
        FILENAME != "src/base/atomic.h" && /__(atomic|sync)_|(^|[^A-Za-z0-9_])_Atomic([^A-Za-z0-9_]|$)/ {
            fault("atomics are for src/base/atomic.h only")
        }
        (own in level) {
            text = code($0)
            if (text !~ /^[ \t]*#[ \t]*include/)
                check_words(text)
        }
        END { exit faults > 0 }' $files)
}

self_test() {
    local tree output
    tree=$(mktemp -d)
    mkdir -p "$tree/src/base" "$tree/src/os" "$tree/src/sched/core" "$tree/src/http"
    printf '#include <pthread.h>\n' > "$tree/src/os/os.h"
    printf '__atomic_load_n\n' > "$tree/src/base/atomic.h"
    printf '#include "os/os.h"\n#include <weft/base.h>\n' > "$tree/src/sched/fiber.h"
    printf '#include "sched/fiber/fiber.h"\n#include <string.h>\n' > "$tree/src/sched/fiber.c"
    printf '/* for a\n * worker */ "a \\"pool" /* task */\nworkerpool;\n' > "$tree/src/sched/words.c"
    printf '#include "http/sys.h"\n#include <unistd.h>\n' > "$tree/src/http/sys_files.c"
    printf '#include <openssl/ssl.h>\n#include <stdlib.h>\n' > "$tree/src/http/tls.c"
    printf '#include "base/atomic.h"\n#include <weft/pool.h>\n' > "$tree/src/http/server.c"
    output=$(check "$tree") || { echo "self-test: a sound tree was refused: $output"; exit 1; }

    expect_fault() { # file, line of code, part of the message
        printf '%s\n' "$2" > "$tree/$1"
        if output=$(check "$tree") || [[ $output != *"$1:1: "*"$3"* ]]; then
            echo "self-test: not found in $1: $2"
            exit 1
        fi
        rm "$tree/$1"
    }
    expect_fault src/base/bad.c '#include "sched/fiber/fiber.h"' 'base may not include sched'
    expect_fault src/sched/bad.c '#include "fiber.h"' 'is not written as'
    expect_fault src/sched/bad.c '#  include <sys/mman.h>' 'only src/os/ may include'
    expect_fault src/sched/bad.h '#include <linux/futex.h>' 'only src/os/ may include'
    expect_fault src/sched/bad.c 'x = __atomic_load_n(&y, 5);' 'atomics'
    expect_fault src/sched/bad.c 'static _Atomic int x;' 'atomics'
    expect_fault src/http/bad.c '#include "os/os.h"' 'public headers only'
    expect_fault src/http/bad.c '#include "sched/fiber/fiber.h"' 'public headers only'
    expect_fault src/http/bad.c '#include <unistd.h>' 'only sys*.c and tls.c of src/http/'
    expect_fault src/http/system.h '#include <unistd.h>' 'only sys*.c and tls.c of src/http/'
    expect_fault src/http/sys_bad.c '#include <openssl/ssl.h>' 'only src/http/tls.c'
    expect_fault src/base/bad.c '#include <openssl/err.h>' 'only src/http/tls.c'
    expect_fault src/base/bad.c '#include "http/sys.h"' 'base may not include http'
    expect_fault src/sched/bad.h 'struct worker *worker;' 'sched may not speak of pool: worker'
    expect_fault src/os/bad.c 'f(MANY_FIBERS); /* many */' 'os may not speak of sched: MANY_FIBERS'
    mkdir "$tree/src/other"
    expect_fault src/other/bad.c 'int x;' 'is not listed'
    rm -rf "$tree"
}

root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
floors=$(sed -nE 's|^src/([a-z]+) .*|\1|p' "$(dirname "$0")/folders.txt")
self_test
check "$root"
echo "the floors are in order"
