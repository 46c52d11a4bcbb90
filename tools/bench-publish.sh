#!/usr/bin/env bash
# bench-publish.sh: publishes the last run of `make bench`: copies results.json, machine.json and
# the charts from build/bench to docs/bench/published and regenerates the pages. Run it for a
# release only. A run of selected cases is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

from=build/bench
to=docs/bench/published
[ -e "$from/results.json" ] || { echo "no $from/results.json: make bench first" >&2; exit 1; }
for case in yield pool_noop pool_sleep parked skynet echo; do
    grep -q "\"case\": \"$case\", \"system\": \"weft\"" "$from/results.json" ||
        { echo "$from/results.json has no $case: the run was of selected cases" >&2; exit 1; }
done

mkdir -p "$to"
rm -f "$to"/*.svg
cp "$from/results.json" "$from/machine.json" "$to"
cp "$from"/*.svg "$to" 2> /dev/null || echo "no charts: gnuplot was missing"
python3 tools/bench-pages.py
