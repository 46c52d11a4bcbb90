#!/usr/bin/env bash
# coverage.sh: reports the lines and branches of src/ that the tests reach, by file.
#
#     coverage.sh build/coverage
#
# Input are the counters of a build with WEFT_COVERAGE after a test run. The script prints lines and
# branches of each file and of all, and writes <build>/missing.txt: each line that never ran and
# each branch that was never taken, with its text.
#
# A branch is a way out of a condition, as gcov counts them.
#   - Lines with must(, should( or _Static_assert count, their branches do not: the other branch is
#     an
#     abort and must not be reached.
#   - Lines with must(!"...") do not count: they mark code that cannot be reached.
#   - Lines with fatal(, and the branches that lead to them, count: tests/*/*_crash.c reach them.
# An inline function of a header counts as reached if any object has reached it.
#
# The models (tests/model) run the same sources in every interleaving, so they reach for certain
# what a test run reaches by luck: lost races. Their counters are added if the code is the same:
# same file, line and text (models have some sizes of their own), and for branches the same number
# of them (the models' atomics could add some). Twins, which contain a bug, are not built for this.
#
# A process writes its counters when it ends by exit, by _exit (tests/support/test.h), by weft's
# crash output, or by a fault that weft reports; not when another signal kills it.
set -euo pipefail

build=${1:?usage: tools/coverage.sh BUILD_FOLDER}
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$build" && pwd)
objects=$build/CMakeFiles

# The output of gcov for the objects in these folders.
counters() {
    find "$@" -name '*.gcno' | sort | while read -r notes; do
        gcov --branch-probabilities --branch-counts --stdout --object-file "${notes%.gcno}.o" "$notes" 2> /dev/null
    done
}

{
    counters "$objects/weft_objects.dir" "$objects/weft_http_objects.dir"
    echo "the models"
    if [ -d "$build/tests/model/CMakeFiles" ]; then
        counters "$build/tests/model/CMakeFiles"
    fi
} | awk -v root="$root/" -v missing="$build/missing.txt" '
# "        -:    0:Source:/path", then per line "count:number:text", then its "branch  0 taken 5".
function trim(text) { sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text); return text }
# Adds the counters of a model for the last line, once all branches of the line are known.
function add_model(    key, i) {
    key = file SUBSEP line
    if (models && line != 0) {
        ran[key] += count ~ /^[#=]/ ? 0 : count
        for (i = 0; i < way && way == ways[key]; i++)
            taken[key, i] += model_taken[i]
    }
    line = 0
}
/^the models$/ { models = 1; line = 0; next }
/^ *-: *0:Source:/ {
    add_model()
    file = $0
    sub(/^ *-: *0:Source:/, "", file)
    sub("^" root, "", file)
    if (models)
        sub(/^.*tests\/model\/generated\//, "src/", file)
    wanted = file ~ /^src\//
    next
}
!wanted { next }
/^branch/ {
    if (excluded || line == 0)
        next
    if (models) {
        model_taken[way++] = $3 == "taken" ? $4 : 0
        next
    }
    key = file SUBSEP line SUBSEP way++
    if (!(key in taken))
        taken[key] = 0
    if ($3 == "taken")
        taken[key] += $4
    if (way > ways[file, line])
        ways[file, line] = way
    next
}
/^(call|function|unconditional|-----)/ { next }
/^ *[0-9#=*-]+\*?: *[0-9]+:/ {
    add_model()
    split($0, part, ":")
    count = trim(part[1])
    number = part[2] + 0
    if (number == 0)
        next
    text = substr($0, length(part[1]) + length(part[2]) + 3)
    if (count == "-" || text ~ /^ *must\(!"/)
        next
    if (models && (!((file, number) in texts) || texts[file, number] != text))
        next
    line = number
    way = 0
    excluded = text ~ /(must|should|_Static_assert)\(/
    if (models)
        next
    key = file SUBSEP line
    texts[key] = text
    if (!(key in ran))
        ran[key] = 0
    if (count !~ /^[#=]/)
        ran[key] += count
}
END {
    add_model()
    for (key in ran) {
        split(key, part, SUBSEP)
        lines[part[1]]++
        if (ran[key] > 0)
            lines_ran[part[1]]++
        else
            printf "%s:%05d: line: %s\n", part[1], part[2], trim(texts[key]) > missing ".unsorted"
    }
    for (key in taken) {
        split(key, part, SUBSEP)
        branches[part[1]]++
        if (taken[key] > 0)
            branches_taken[part[1]]++
        else if (ran[part[1], part[2]] > 0)
            printf "%s:%05d: branch %d: %s\n", part[1], part[2], part[3], trim(texts[part[1], part[2]]) > missing ".unsorted"
    }
    for (file in lines) {
        printf "%-28s %5d of %5d lines %6.1f %%   %5d of %5d branches %6.1f %%\n", file, lines_ran[file], lines[file],
            100 * lines_ran[file] / lines[file], branches_taken[file], branches[file],
            branches[file] ? 100 * branches_taken[file] / branches[file] : 100 | "sort"
        all += lines[file]; all_ran += lines_ran[file]
        every += branches[file]; every_taken += branches_taken[file]
    }
    close("sort")
    if (all == 0) {
        print "no counters found" > "/dev/stderr"
        exit 1
    }
    printf "%-28s %5d of %5d lines %6.1f %%   %5d of %5d branches %6.1f %%\n", "all", all_ran, all, 100 * all_ran / all,
        every_taken, every, 100 * every_taken / every
}'

sort "$build/missing.txt.unsorted" | sed 's/:0*\([0-9]\)/:\1/' > "$build/missing.txt"
rm "$build/missing.txt.unsorted"
echo "missing lines and branches: $build/missing.txt"
