#!/usr/bin/env bash
# check-names.sh: checks that comments and documents name only what exists.
#
#   1. The opening comment of a source file or script begins with the name of the file.
#   2. A file that a comment or document names (`thing.c`, `src/floor/thing.c`) exists: the name is
#      the end of a path of the tree, or a header that some file includes as <header>.
#   3. A name with weft_, weft__ or WEFT_ that a comment or document uses occurs in code, in a build
#      file or in a script. A name that ends with an underscore stands for all that begin with it.
#   4. A test that a guide names as `floor.name` exists. (In docs/design that may be a field.)
#   5. A relative link of a Markdown page leads to a file; one with #heading to a heading.
#
# Names of things that no longer exist, and examples that are no files, are listed in
# tools/names.txt. CHANGELOG.md is not read, since it names what was. The self-test runs first.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/text-check.sh
source "$here/text-check.sh"

wrong_names() { # files; the names that are right are on the input
    awk '
        function heading_of(text) { # as it appears in a link
            text = tolower(text)
            gsub(/`/, "", text)
            gsub(/[^a-z0-9 _-]/, "", text)
            gsub(/ /, "-", text)
            return text
        }
        function report(text) {
            print FILENAME ":" FNR ": " text
        }
        # The part of a line of C that is comment.
        function comment_of(text,    out, at, rest) {
            out = ""
            gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
            while (text != "") {
                if (block) {
                    at = index(text, "*/")
                    if (!at)
                        return out text
                    out = out substr(text, 1, at - 1) " "
                    text = substr(text, at + 2)
                    block = 0
                } else {
                    if (!match(text, /\/[*\/]/))
                        return out
                    rest = substr(text, RSTART, 2)
                    text = substr(text, RSTART + 2)
                    if (rest == "//")
                        return out text
                    block = 1
                }
            }
            return out
        }
        function check_files(text,    name, before) {
            while (match(text, /[A-Za-z0-9_.\/<-]*[A-Za-z0-9_]\.(c|h|S|sh|py|md|twin|cpp)($|[^A-Za-z0-9_(])/)) {
                name = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH - 1)
                if (text == name) # the end of the line
                    text = ""
                sub(/[^A-Za-z0-9]$/, "", name)
                if (name ~ /^</ || name ~ /^\//)
                    continue
                while (sub(/^(\.\.?\/)/, "", name))
                    ;
                sub(/^[.-]+/, "", name)
                if (name !~ /^_/ && !(name in known)) # _crash.c is the end of a name
                    report("there is no file " name)
            }
        }
        function check_identifiers(text,    name, star) {
            while (match(text, /(weft_|WEFT_)[A-Za-z0-9_]*[*{]?/)) {
                name = substr(text, RSTART, RLENGTH)
                star = name ~ /[*{]$/
                sub(/[*{]$/, "", name)
                if (RSTART > 1 && substr(text, RSTART - 1, 1) ~ /[A-Za-z0-9_]/)
                    name = "" # the end of a longer name
                text = substr(text, RSTART + RLENGTH)
                if (name != "" && !star && name !~ /_$/ && !(name in known))
                    report("nothing is called " name)
            }
        }
        function check_tests(text,    name) {
            while (match(text, /`[a-z]+\.[a-z0-9_]+`/)) {
                name = substr(text, RSTART + 1, RLENGTH - 2)
                text = substr(text, RSTART + RLENGTH)
                if ((("tests/" substr(name, 1, index(name, ".") - 1)) in folder_of) &&
                        name !~ /\.(c|h|md|sh|py)$/ && !(name in known))
                    report("there is no test " name)
            }
        }
        function check_links(text,    target, path, anchor, folder) {
            while (match(text, /\]\([^)]*\)/)) {
                target = substr(text, RSTART + 2, RLENGTH - 3)
                text = substr(text, RSTART + RLENGTH)
                if (target ~ /^[a-z]+:/)
                    continue
                path = target
                sub(/#.*/, "", path)
                anchor = target ~ /#/ ? substr(target, index(target, "#") + 1) : ""
                folder = FILENAME
                if (!sub(/\/[^\/]*$/, "", folder))
                    folder = "."
                path = path == "" ? FILENAME : folder "/" path
                sub(/^\.\//, "", path)
                while (sub(/\/\.\//, "/", path) || sub(/[^\/]+\/\.\.\//, "", path))
                    ;
                sub(/\/$/, "", path)
                if (!(("path " path) in known))
                    report("the link leads to no file: " target)
                else if (anchor != "" && !((path "#" anchor) in known))
                    report("the link leads to no heading: " target)
            }
        }
        BEGIN { no_opening["examples/million.c"] = 1 } # as the manual prints it
        NR == FNR {
            known[$0] = 1
            if (/^path tests\/[a-z]+$/)
                folder_of[substr($0, 6)] = 1
            next
        }
        FNR == 1 {
            block = fence = 0
            base = FILENAME
            sub(/.*\//, "", base)
            kind = FILENAME ~ /\.md$/ ? "text" : FILENAME ~ /\.([chS]|cpp)$/ ? "c" : "script"
            opened = kind == "text" || base !~ /\.(c|h|S|cpp|sh|py)$/ || FILENAME in no_opening
        }
        !opened && FNR <= 3 {
            line = $0
            sub(/^( \* |\/\* |\/\/ |# |""")/, "", line)
            if (index(line, base ": ") == 1 || index(line, "weft/" base ": ") == 1 ||
                    line ~ /^frame\.[a-z_]+: /)
                opened = 1
            else if (FNR == 3)
                report("the opening comment does not begin with \"" base ": \"")
        }
        kind == "c" { text = comment_of($0) }
        kind == "text" {
            check_links($0)
            text = $0
            gsub(/\]\([^)]*\)/, "]", text)
            if (/^ *```/)
                fence = !fence
            if (!fence && FILENAME !~ /^docs\/design\//)
                check_tests(text)
            if (fence)
                text = "" # programs are compiled by tests, or talk of the files of users
        }
        kind == "script" {
            text = ""
            if (match($0, /(^|[ \t])#( |$)/))
                text = substr($0, RSTART)
        }
        text != "" {
            check_files(text)
            check_identifiers(text)
        }' - "$@"
}

# What may be named: paths and each end of one, headings, included headers, identifiers in code.
right_names() {
    local files
    files=$(find . \( -path './build*' -o -path ./.git -o -name '__pycache__' \) -prune -o -type f -print |
        sed 's|^\./||')
    awk -F / '
        {
            print "path " $0
            folder = $0
            while (sub(/\/[^\/]*$/, "", folder))
                print "path " folder
            name = $NF
            print name
            for (i = NF - 1; i > 0; i--) {
                name = $i "/" name
                print name
            }
        }' <<< "$files"
    # Tests.
    sed -nE 's|^tests/([a-z]+)/([a-z0-9_]+)\.c$|\1.\2|p' <<< "$files"
    sed -nE -e 's/^ *(weft_frame_test|weft_cxx_test)\(([a-z0-9_]+).*/frame.\2/p' \
        -e 's/^ *add_test\(NAME ([a-z]+\.[a-z0-9_.]+).*/\1/p' tests/CMakeLists.txt
    grep -E '\.md$' <<< "$files" | while read -r page; do
        awk '
            /^ *```/ { fence = !fence }
            !fence && /^#+ / {
                text = $0
                sub(/^#+ /, "", text)
                text = tolower(text)
                gsub(/[^a-z0-9 _-]/, "", text)
                gsub(/ /, "-", text)
                print FILENAME "#" text
            }' "$page"
    done
    # Code, without comments; strings may be names too.
    grep -E '\.([chS]|cpp|map|in|cmake|pml|go|rs)$' <<< "$files" | tr '\n' '\0' | xargs -0 cat |
        sed -E -e 's|/\*.*\*/||g' -e '/^ *\/\*/,/\*\//d' -e 's|//.*||' |
        grep -oE '(weft_|WEFT_)[A-Za-z0-9_]+|<[a-z0-9_/]+\.h>' | tr -d '<>' | sort -u
    grep -E '(\.sh|\.py|CMakeLists\.txt|Makefile|\.cmake|\.in|ci/run|folders\.txt)$' <<< "$files" |
        tr '\n' '\0' | xargs -0 sed -E 's/^ *#.*//' | grep -ohE '(weft_|WEFT_)[A-Za-z0-9_]+' | sort -u
    sed -E '/^#/d; s/ .*//' tools/names.txt
}

self_test() {
    local folder output expected
    folder=$(mktemp -d)
    mkdir -p "$folder/src" "$folder/tools" "$folder/tests/base"
    echo 'add_test(NAME base.other COMMAND x)' > "$folder/tests/CMakeLists.txt"
    printf '/*\n * list.c: tests\n */\n' > "$folder/tests/base/list.c"
    printf '# comment\nold.c  was replaced\n' > "$folder/tools/names.txt"
    cat > "$folder/src/a.c" << 'END'
/*
 * a.c: counts: see src/a.c, a.c, old.c, <string.h> and stdio.h.
 */
#include <stdio.h>
int weft_real; // weft_real, weft_re*, weft_missing
int code; /* b.c */
END
    printf '/*\n * c.c: is b.c\n */\n' > "$folder/src/b.c"
    cat > "$folder/page.md" << 'END'
# A page, of `names`
[a](src/a.c), [b](#a-page-of-names), [c](src/c.c) and [d](#a-page).
`base.list`, `base.other`, `base.missing`, `none.missing`
END
    output=$(cd "$folder" && right_names | wrong_names page.md src/a.c src/b.c)
    rm -rf "$folder"
    expected='page.md:2: the link leads to no file: src/c.c
page.md:2: the link leads to no heading: #a-page
page.md:3: there is no test base.missing
src/a.c:5: nothing is called weft_missing
src/b.c:2: there is no file c.c
src/b.c:3: the opening comment does not begin with "b.c: "'
    [ "$output" = "$expected" ] || {
        echo "self-test: found:"
        echo "$output"
        exit 1
    }
}

self_test
cd "$here/.."
not_read='^(CHANGELOG\.md|tools/(names|words)\.txt|tools/check-[a-z]+\.sh|tests/CMakeLists\.txt)$'
not_read+='|^(bench/peers|tests/frame)/'
mapfile -t files < <(checked_files | grep -vE "$not_read")
right_names | wrong_names "${files[@]}" | no_faults "wrong names"
