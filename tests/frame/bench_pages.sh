#!/usr/bin/env bash
# frame.bench_pages: the pages of figures equal what tools/bench-pages.py generates from the
# published results, results.json has the format that docs/bench/README.md describes, and generated
# files are in docs/bench/published only. The test measures nothing and needs no peer.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }

stray=$(find docs -path docs/bench/published -prune -o \( -name '*.svg' -o -name '*.json' \) -print)
[ -z "$stray" ] || { echo "generated files outside docs/bench/published: $stray"; exit 1; }
python3 tools/bench-pages.py --check
python3 - docs/bench/published/results.json << 'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    results = json.load(file)
kinds = {"case": str, "system": str, "version": str, "unit": str, "median": (int, float), "low": (int, float),
         "high": (int, float), "peak_rss_kb": int, "rounds": int, "params": str}
assert isinstance(results, list) and results, "not an array of results"
for result in results:
    assert set(result) == set(kinds), result
    for name, kind in kinds.items():
        assert isinstance(result[name], kind), (name, result)
    assert result["unit"] in ("ns/op", "s", "req/s", "bytes"), result
    assert result["low"] <= result["median"] <= result["high"], result
    assert result["rounds"] >= 1 and result["peak_rss_kb"] > 0 and "processors=" in result["params"], result
keys = [(result["case"], result["system"]) for result in results]
assert len(keys) == len(set(keys)), "a figure is there twice"
weft = {case for case, system in keys if system == "weft"}
for case, system in keys:
    assert case in weft, f"{case} of {system} has no figure of weft beside it"
END
