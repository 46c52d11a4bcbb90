#!/usr/bin/env bash
# check-columns.sh: checks that comments and prose have lines of at most 100 columns.
#
#     check-columns.sh             fails if a folder has more long lines than its baseline allows
#     check-columns.sh --list      prints each long line
#     check-columns.sh --update    lowers the baseline to what there is; never raises it
#
# Checked: comments in C, C++ and assembler, comments in scripts and build files, the text of
# Markdown pages. Not checked: code (clang-format has a ColumnLimit), tables, code blocks and
# generated text in Markdown, and a word that is too long by itself, such as a link.
#
# tools/baselines/columns.txt holds the number of long lines that a folder may still have. The
# self-test runs first.
set -euo pipefail
export LC_ALL=C

baseline=tools/baselines/columns.txt

# Prints each long line as path:line: text.
long_lines() { # files
    awk '
        function columns(text) {
            gsub(/[\200-\277]/, "", text) # bytes that continue a character in UTF-8
            return length(text)
        }
        # A single word that does not fit cannot be broken.
        function breakable(text) {
            sub(/^[ \t]*(\*|#|\/\/|\/\*)?[ \t]*([-*][ \t]+)?/, "", text)
            return text ~ /[^ \t][ \t]/
        }
        function report() {
            if (columns($0) > 100 && breakable($0))
                print FILENAME ":" FNR ": " $0
        }
        FNR == 1 {
            block = fence = generated = 0
            kind = "script"
            if (FILENAME ~ /\.([chS]|cpp|twin|go|rs)$/)
                kind = "c"
            else if (FILENAME ~ /\.md$/)
                kind = "text"
        }
        kind == "c" {
            inside = block
            text = $0
            gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
            while (1) {
                if (block) {
                    if (!(at = index(text, "*/")))
                        break
                    text = substr(text, at + 2)
                    block = 0
                } else {
                    if (!match(text, /\/[*\/]/))
                        break
                    inside = 1
                    if (substr(text, RSTART, 2) == "//")
                        break
                    text = substr(text, RSTART + 2)
                    block = 1
                }
            }
            if (inside)
                report()
            next
        }
        kind == "text" {
            if (/^ *```/)
                fence = !fence
            if (/^<!-- generated/)
                generated = 1
            if (!fence && !generated && !/^ *\|/)
                report()
            if (/^<!-- end/)
                generated = 0
            next
        }
        # Comments, and the opening text of a Python module.
        /^"""/ { block = !block }
        /(^|[ \t])#/ || block || /^"""/ { report() }
        /"""$/ && block { block = 0 }' "$@"
}

# Prints "count folder" for path:line: text on the input; a folder is two levels of the path.
by_folder() {
    awk -F : '
        {
            count = split($1, part, "/")
            folder = count == 1 ? "." : count == 2 ? part[1] : part[1] "/" part[2]
            lines[folder]++
        }
        END { for (folder in lines) print lines[folder], folder }' | sort -k 2
}

tracked() {
    find src include tests tools docs bench examples cmake .ci \
        \( -path tests/fuzz/corpus -o -path docs/bench/published -o -name __pycache__ \) -prune -o \
        -type f \( -name '*.[chS]' -o -name '*.cpp' -o -name '*.twin' -o -name '*.sh' \
        -o -name '*.py' -o -name '*.md' -o -name '*.txt' -o -name '*.cmake' -o -name '*.go' \
        -o -name '*.rs' -o -name run \) -print | sort
    ls ./*.md CMakeLists.txt Makefile | sed 's|^\./||'
}

self_test() {
    local folder wide output
    folder=$(mktemp -d)
    wide=$(printf 'word %.0s' {1..21})
    cat > "$folder/a.c" << END
/* $wide
 * $wide */
int code; $wide
const char *text = "// $wide";
int more; // $wide
/* https://$(tr -d ' ' <<< "$wide") */
END
    printf '# %s\n%s\n' "$wide" "$wide" > "$folder/a.sh"
    printf '%s\n| %s |\n```\n%s\n```\n' "$wide" "$wide" "$wide" > "$folder/a.md"
    printf '%0100d \303\227\n' 0 | tr 0 ' ' | sed 's/^  /# a/' > "$folder/b.sh"
    output=$(cd "$folder" && long_lines a.c a.sh a.md b.sh | cut -d : -f 1,2 | tr '\n' ' ')
    rm -rf "$folder"
    [ "$output" = 'a.c:1 a.c:2 a.c:5 a.sh:1 a.md:1 b.sh:1 ' ] || {
        echo "self-test: found $output"
        exit 1
    }
}

self_test
cd "$(dirname "$0")/.."
mapfile -t files < <(tracked)
case ${1:-} in
--list)
    long_lines "${files[@]}"
    exit
    ;;
--update | '') ;;
*)
    echo "usage: tools/check-columns.sh [--list|--update]" >&2
    exit 2
    ;;
esac

# Each line: found, allowed, folder.
compared=$(awk '
    NR == FNR { allowed[$2] = $1; next }
    { print $1, allowed[$2] + 0, $2 }' "$baseline" <(long_lines "${files[@]}" | by_folder))
if [ "${1:-}" = --update ]; then
    awk '{ print $1 < $2 ? $1 : $2, $3 }' <<< "$compared" | awk 'NF == 2 && $1 > 0' > "$baseline.new"
    mv "$baseline.new" "$baseline"
fi
if ! awk '
    $1 > $2 { print "FAILED: " $3 ": " $1 " long lines, " $2 " allowed"; bad = 1 }
    END { exit bad }' <<< "$compared"; then
    echo "tools/check-columns.sh --list shows them"
    exit 1
fi
echo "$(awk '{ sum += $1 } END { print sum + 0 }' "$baseline") long lines are left to break"
