#!/usr/bin/env bash
# flood-publish.sh: publishes the last run of `make flood`: copies flood.json from build/bench to
# docs/bench/published and regenerates the page. Run it for a release only. A quick run, or a run of
# selected attacks, is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

from=build/bench/flood.json
[ -e "$from" ] || { echo "no $from: make flood first" >&2; exit 1; }
python3 - "$from" << 'END'
import json
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "bench/flood")
import attacks

with open(sys.argv[1], encoding="utf-8") as file:
    data = json.load(file)
if data["machine"]["quick"]:
    sys.exit(f"{sys.argv[1]} is the result of a quick run")
found = {(run["attack"], run["system"]) for run in data["runs"]}
for attack in attacks.ATTACKS:
    for system in attack.systems:
        if (attack.name, system) not in found:
            sys.exit(f"{sys.argv[1]} has no {attack.name} of {system}: the run was of selected attacks")
END
cp "$from" docs/bench/published/flood.json
python3 tools/bench-pages.py
