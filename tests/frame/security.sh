#!/usr/bin/env bash
# frame.security: the tests and attacks that docs/security.md names exist.
#
# A scene is run by its file, a file without a scene exists, an attack is one of
# bench/flood/attacks.py, and each row names a test or says why none is needed.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/../.." && pwd)
page=$root/docs/security.md
failed=0

complain() {
    echo "FAILED: docs/security.md: $*"
    failed=1
}

count=0
while read -r name; do
    file=${name%%:*} scene=${name#*:}
    count=$((count + 1))
    if [ ! -f "$root/$file" ]; then
        complain "there is no $file"
    elif [ "$file" != "$name" ] && ! grep -qE "\bRUN[A-Z_]*\($scene\b" "$root/$file"; then
        complain "$file does not run $scene"
    fi
done < <(grep -oE '`tests/[a-z]+/[a-z0-9_]+\.c(:[a-z0-9_]+)?`' "$page" | tr -d '`' | sort -u)

# The rows of the table without its head: class, description, tests, attacks.
rows=$(grep -E '^\| ' "$page" | grep -vE '^\| class \|')
while IFS='|' read -r _ class _ tests attacks _; do
    grep -qE '`tests/|none needed' <<< "$tests" || complain "no test for:$class"
    for attack in $(grep -oE '`[^`]+`' <<< "$attacks" | tr -d '`'); do
        grep -qF "Attack(\"$attack\"," "$root/bench/flood/attacks.py" || complain "there is no attack $attack"
    done
done <<< "$rows"

[ "$count" -gt 0 ] || complain "no test is named"
[ "$failed" = 0 ] && echo "$count tests of $(wc -l <<< "$rows") classes exist"
exit "$failed"
