# baseline.sh: sourced by checks that count faults by folder and compare them with a baseline.
#
# Input of the functions: one fault a line, as path:line: text. A line of a baseline is a count and
# a folder: the first two parts of the path. A baseline may only shrink.

# The files that checks of text read.
checked_files() {
    find src include tests tools docs bench examples cmake .ci \
        \( -path tests/fuzz/corpus -o -path docs/bench/published -o -name __pycache__ \) -prune -o \
        -type f \( -name '*.[chS]' -o -name '*.cpp' -o -name '*.twin' -o -name '*.sh' \
        -o -name '*.py' -o -name '*.md' -o -name '*.txt' -o -name '*.cmake' -o -name '*.go' \
        -o -name '*.rs' -o -name run \) -print | sort
    ls ./*.md CMakeLists.txt Makefile | sed 's|^\./||'
}

by_folder() {
    awk -F : '
        {
            count = split($1, part, "/")
            folder = count == 1 ? "." : count == 2 ? part[1] : part[1] "/" part[2]
            faults[folder]++
        }
        END { for (folder in faults) print faults[folder], folder }' | sort -k 2
}

# Fails if a folder has more faults than the baseline allows. With --update it lowers the baseline
# first.
compare_with_baseline() { # baseline, what is counted, option
    local compared
    compared=$(awk 'NR == FNR { allowed[$2] = $1; next } { print $1, allowed[$2] + 0, $2 }' \
        "$1" <(by_folder))
    if [ "$3" = --update ]; then
        awk 'NF == 3 && $2 > 0 { print $1 < $2 ? $1 : $2, $3 }' <<< "$compared" > "$1.new"
        mv "$1.new" "$1"
    fi
    if ! awk -v what="$2" '
        $1 > $2 { print "FAILED: " $3 ": " $1 " " what ", " $2 " allowed"; bad = 1 }
        END { exit bad }' <<< "$compared"; then
        echo "${0##*/} --list shows them"
        return 1
    fi
    echo "$(awk '{ sum += $1 } END { print sum + 0 }' <<< "$compared") $2 are left"
}
