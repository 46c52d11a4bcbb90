#!/usr/bin/env bash
# check-columns.sh: checks that comments and prose have lines of at most 100 columns.
#
# Checked: comments in C, C++ and assembler, comments in scripts and build files, the text of
# Markdown pages. Not checked: code (clang-format has a ColumnLimit), tables, code blocks and
# generated text in Markdown, and a word that is too long by itself, such as a link.
# The self-test runs first.
set -euo pipefail
export LC_ALL=C

# shellcheck source=tools/text-check.sh
source "$(dirname "$0")/text-check.sh"

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
mapfile -t files < <(checked_files)
long_lines "${files[@]}" | no_faults "long lines"
