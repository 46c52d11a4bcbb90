#!/usr/bin/env bash
# bench-publish.sh: makes the last run of `make bench` the one that the repository shows: copies results, machine and
# charts from build/bench to docs/bench, and makes the pages from them. A run of some cases only is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

from=build/bench
to=docs/bench
[ -e "$from/results.json" ] || { echo "no $from/results.json: make bench first" >&2; exit 1; }
for case in yield pool_noop pool_sleep parked skynet echo; do
    grep -q "\"case\": \"$case\", \"system\": \"weft\"" "$from/results.json" ||
        { echo "$from/results.json has no $case: it is of a run of some cases only" >&2; exit 1; }
done

mkdir -p "$to"
rm -f "$to"/*.svg
cp "$from/results.json" "$from/machine.json" "$to"
cp "$from"/*.svg "$to" 2> /dev/null || echo "no charts: gnuplot was missing"
python3 tools/bench-pages.py
