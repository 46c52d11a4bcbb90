# text-check.sh: sourced by the checks of text: which files they read, and how they report.

# The files that checks of text read.
checked_files() {
    find src include tests tools docs bench examples cmake .ci \
        \( -path tests/fuzz/corpus -o -path docs/bench/published -o -name __pycache__ \) -prune -o \
        -type f \( -name '*.[chS]' -o -name '*.cpp' -o -name '*.twin' -o -name '*.sh' \
        -o -name '*.py' -o -name '*.md' -o -name '*.txt' -o -name '*.cmake' -o -name '*.go' \
        -o -name '*.rs' -o -name run \) -print | sort
    ls ./*.md CMakeLists.txt Makefile | sed 's|^\./||'
}

# Prints the faults, one a line as path:line: text, and fails if there are any.
no_faults() { # what they are
    local faults
    faults=$(cat)
    if [ -n "$faults" ]; then
        echo "$faults"
        echo "FAILED: $(wc -l <<< "$faults") $1"
        return 1
    fi
    echo "no $1"
}
