#!/usr/bin/env bash
# check-commits.sh: checks the subjects of commits.
#
#     check-commits.sh [RANGE]      default: every commit after the one that added this script
#
# A subject has the form `area: change` and at most 72 characters. The area is in lower case, the
# change in the imperative and without a full stop. A word list recognizes what is not an
# imperative: articles, pronouns, question words ("who", "what", "how"), and verbs in -ed, -ing or
# -s.
#
# In a shallow clone the oldest commit that is there counts as the one that added the script, so a
# clone of depth 1 has nothing to check. Outside of a repository the script has nothing to check
# either. The self-test runs first.
set -euo pipefail
export LC_ALL=C.UTF-8

longest=72
area='[a-z][a-z0-9_.+-]*'
not_verbs=' a all an and any anyone anything as at both by each every everybody everyone everything
    few for how if in it its less many more most no nobody none not nothing of on one only or others
    some somebody something such that the their there these they this those to two we what whatever
    when where which while who whoever whose why with without you '
not_verbs=" ${not_verbs//$'\n'/ } "
# Verbs that end like other forms.
verbs=' bleed breed bring embed exceed feed heed need ping proceed ring seed shed speed spring string
    swing wing wring alias bias bus canvas '
verbs=" ${verbs//$'\n'/ } "

# Prints what is wrong with a subject; nothing if it is right.
fault() { # subject
    local subject=$1 change word
    case $subject in
    'Merge '* | 'Revert "'*) return ;;
    esac
    if [ ${#subject} -gt $longest ]; then
        echo "${#subject} characters, at most $longest"
    elif ! [[ $subject =~ ^$area(,\ $area)*:\ [^\ ] ]]; then
        echo "is not \`area: change\`"
    elif [[ $subject == *. ]]; then
        echo "ends with a full stop"
    else
        change=${subject#*: }
        word=${change%%[ ,;:]*}
        word=${word,,}
        if [[ $not_verbs == *" $word "* ]]; then
            echo "\"$word\" is not an imperative"
        elif [[ $verbs != *" $word "* && ($word =~ (ed|ing)$ || $word =~ [^sui]s$) ]]; then
            echo "\"$word\" is not an imperative"
        fi
    fi
}

self_test() {
    local subject
    while read -r subject; do
        [ -z "$(fault "$subject")" ] || { echo "self-test: refused: $subject"; exit 1; }
    done << 'END'
timer: fire once when the period is missed
tests, bench: need no clock
x86_64: pass errno on
wait-group: process 72 characters, as many as a subject may have: thisxx
Revert "timer: fire once when the period is missed"
END
    while read -r subject; do
        [ -n "$(fault "$subject")" ] || { echo "self-test: accepted: $subject"; exit 1; }
    done << 'END'
fire once
Timer: fire once
timer:fire once
timer: fire once.
timer: who fires once
timer: what is fired
docs: the floods again, on another machine
timer: fires once
timer: fired once
timer: firing once
timer: process 73 characters, one more than a subject may have: this itxx
END
}

self_test
cd "$(dirname "$0")/.."
if [ "$(git rev-parse --show-toplevel 2> /dev/null || true)" != "$PWD" ]; then
    echo "no repository: no commits to check"
    exit 0
fi
range=${1:-}
if [ -z "$range" ]; then
    first=$(git log --diff-filter=A --format=%H -- tools/check-commits.sh | tail -n 1)
    [ -n "$first" ] || { echo "the script is not committed: no commits to check"; exit 0; }
    range=$first..HEAD
fi

count=0
failed=0
while read -r commit subject; do
    count=$((count + 1))
    text=$(fault "$subject")
    [ -z "$text" ] && continue
    echo "FAILED: $commit $subject: $text"
    failed=1
done < <(git log --no-merges --format='%h %s' "$range")
[ "$failed" = 0 ] && echo "$count commits are in order"
exit "$failed"
