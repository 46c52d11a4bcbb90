#!/usr/bin/env bash
# flood-publish.sh: makes the last run of `make flood` the one that the repository shows: copies results and charts from
# build/bench to docs/bench, and makes the page from them. A run of some scenarios, or without weft, is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

from=build/bench
to=docs/bench
[ -e "$from/flood.json" ] || { echo "no $from/flood.json: make flood first" >&2; exit 1; }
for scenario in connections burst slowloris reader header; do
    for system in weft net-http; do
        grep -q "\"scenario\":\"$scenario\",\"system\":\"$system\"" "$from/flood.json" ||
            { echo "$from/flood.json has no $scenario of $system: it is of a run of some only" >&2; exit 1; }
    done
done

mkdir -p "$to/flood"
rm -f "$to"/flood/*.svg
cp "$from/flood.json" "$to"
cp "$from"/flood/*.svg "$to/flood" 2> /dev/null || echo "no charts: gnuplot was missing"
python3 tools/bench-pages.py
