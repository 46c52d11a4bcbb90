#!/usr/bin/env bash
# check-words.sh: checks that words which were replaced do not come back.
#
# tools/words.txt has the words. The check reads code, comments and documents, except CHANGELOG.md,
# which keeps the words of the past, and its own files. The self-test runs first.
set -euo pipefail
export LC_ALL=C

# shellcheck source=tools/text-check.sh
source "$(dirname "$0")/text-check.sh"

# Prints path:line: word (term): text.
old_words() { # list of words, files
    awk -F '\t' '
        NR == FNR {
            if (/^[^#]/ && NF == 2) {
                count++
                word[count] = "(^|[^a-z])(" $1 ")([^a-z]|$)"
                term[count] = $2
                any = any (count > 1 ? "|" : "") $1
            }
            next
        }
        FNR == 1 { any_word = "(^|[^a-z])(" any ")([^a-z]|$)" }
        {
            text = tolower($0)
            if (text !~ any_word)
                next
            for (i = 1; i <= count; i++)
                if (match(text, word[i])) {
                    found = substr(text, RSTART, RLENGTH)
                    gsub(/^[^a-z.>-]|[^a-z]$/, "", found)
                    print FILENAME ":" FNR ": " found " (" term[i] "): " $0
                    next
                }
        }' "$@"
}

self_test() {
    local folder output
    folder=$(mktemp -d)
    printf '# comment\nhop|hops\tstep\n[a-z]*([.]|->)away\tblocked\n' > "$folder/words"
    printf 'a hop\nshop\nx->away = 1;\ngo away\nfor (hop_count; ; )\nHops' > "$folder/a.c"
    output=$(cd "$folder" && old_words words a.c | cut -d : -f 1,2 | tr '\n' ' ')
    rm -rf "$folder"
    [ "$output" = 'a.c:1 a.c:3 a.c:5 a.c:6 ' ] || {
        echo "self-test: found $output"
        exit 1
    }
}

self_test
cd "$(dirname "$0")/.."
not_read='^(CHANGELOG\.md|tools/(check-(commits|words)\.sh|words\.txt)|docs/design/(map|words)\.md)$'
mapfile -t files < <(checked_files | grep -vE "$not_read")
old_words tools/words.txt "${files[@]}" | no_faults "old words"
