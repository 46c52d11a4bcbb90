#!/usr/bin/env bash
# frame.scenarios: every public function is called in a scenario in which each system call fails.
#
# The scenarios are in tests/*/calls_fault.c. Exceptions are listed below, with the reason.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "$0")/../.." && pwd)
failed=0

# These functions use no resource and return no error.
declare -A nothing=(
    [weft_version]="a constant"
    [weft_strerror]="a constant"
    [weft_resolve_strerror]="a constant"
)

mapped=$(sed -e 's|/\*.*\*/||' "$root/src/weft.map" | grep -oE '^ +weft_[a-z0-9_]+' | tr -d ' ' |
    sort -u)
# A name before a parenthesis is a call, except in comments.
called=$(sed -e 's|/\*.*\*/||' "$root"/tests/*/calls_fault.c | grep -v '^ \*' |
    grep -oE '\bweft_[a-z0-9_]+\(' | tr -d '(' | sort -u)

[ -n "$mapped" ] || { echo "no function found in src/weft.map"; exit 1; }

excepted=$(printf '%s\n' "${!nothing[@]}" | sort)

complain() { # what, names
    [ -z "$2" ] && return
    failed=1
    sed "s/^/FAILED: $1 /" <<< "$2"
}
complain "no scenario in tests\/*\/calls_fault.c calls" \
    "$(comm -23 <(echo "$mapped") <(sort -u <(echo "$called") <(echo "$excepted")))"
complain "has a scenario and need not be listed as an exception:" \
    "$(comm -12 <(echo "$called") <(echo "$excepted"))"
complain "is listed as an exception and does not exist:" "$(comm -13 <(echo "$mapped") <(echo "$excepted"))"

[ "$failed" = 0 ] && echo "$(wc -l <<< "$mapped") functions, ${#nothing[@]} of them without a scenario"
exit "$failed"
