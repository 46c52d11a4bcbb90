#!/usr/bin/env bash
# frame.tour: each function that a table of docs/design/tour.md names is defined in its file,
# and each heading has the right number of calls and files.
#
#     tour.sh            checks the tour
#     tour.sh --update   corrects the numbers in the headings
#
# The self-test runs first, on a small tour with one fault of each kind.
set -euo pipefail
export LC_ALL=C

# Prints faults; true if there are none.
check() { # root, update
    local root=$1 page=$1/docs/design/tour.md failed=0 number file function numbers
    while IFS=$'\t' read -r number file function; do
        if [ ! -f "$root/$file" ]; then
            echo "FAILED: docs/design/tour.md:$number: there is no file $file"
            failed=1
        elif ! grep -E "^[A-Za-z].*\b$function\(|^$function\(" "$root/$file" | grep -qv ';$'; then
            echo "FAILED: docs/design/tour.md:$number: $file does not define $function"
            failed=1
        fi
    done < <(sed -nE '/^\| src/{=;s/^\| *([^ |]+) *\| *([^ |]+) *\|.*/\1\t\2/p;}' "$page" |
        paste - -)
    numbers=$(awk '
        function finish() {
            if (title != "")
                print title ": " calls " calls in " files " files"
            calls = files = 0
            split("", seen)
        }
        /^## / {
            finish()
            title = $0
            sub(/: [0-9]+ calls in [0-9]+ files$/, "", title)
        }
        /^\| src/ {
            split($0, part, /[| ]+/)
            calls++
            files += !(part[2] in seen)
            seen[part[2]] = 1
        }
        END { finish() }' "$page")
    if [ "${2:-}" = --update ]; then
        awk 'NR == FNR { heading[++count] = $0; next } /^## / { print heading[++at]; next } { print }' \
            <(echo "$numbers") "$page" > "$page.new"
        mv "$page.new" "$page"
    fi
    if ! diff <(grep '^## ' "$page") <(echo "$numbers"); then
        echo "FAILED: a heading of docs/design/tour.md is wrong: run tests/frame/tour.sh --update"
        failed=1
    fi
    [ "$failed" = 0 ] && echo "$numbers" | sed 's/^## //'
    return "$failed"
}

self_test() {
    local copy output
    copy=$(mktemp -d)
    mkdir -p "$copy/docs/design" "$copy/src"
    printf 'int called(void);\nstatic void\nfound(void)\n{\n    called();\n}\n' > "$copy/src/a.c"
    printf '# A\n\n## B: 1 calls in 1 files\n\n| file | function | what |\n|---|---|---|\n' \
        > "$copy/docs/design/tour.md"
    echo '| src/a.c | found | x |' >> "$copy/docs/design/tour.md"
    check "$copy" > /dev/null || { echo "self-test: a sound tour was refused"; exit 1; }
    printf '| src/a.c | called | x |\n| src/b.c | found | x |\n' >> "$copy/docs/design/tour.md"
    if output=$(check "$copy") || [[ $output != *"src/a.c does not define called"* ]] ||
        [[ $output != *"there is no file src/b.c"* ]] || [[ $output != *"heading"* ]]; then
        echo "self-test: not found: $output"
        exit 1
    fi
    rm -rf "$copy"
}

self_test
check "$(cd "$(dirname "$0")/../.." && pwd)" "${1:-}"
