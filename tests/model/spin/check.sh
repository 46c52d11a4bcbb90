#!/usr/bin/env bash
# check.sh: lets Spin look at every state of a model in Promela.
#
#     check.sh <model.pml> <folder to work in> [bug]
#
# Without a bug nothing may be found; with one (a name that the model is compiled with) something must.
# Exit code 77 if there is no spin, or no compiler for what it writes.
set -euo pipefail

model=$(basename "$1")
bug=${3:-}
for tool in spin cc; do
    command -v $tool > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
mkdir -p "$2"
cp "$1" "$2"
cd "$2"
spin -a ${bug:+-D$bug} "$model"
cc -O0 -w -DSAFETY -DNOCLAIM -DVECTORSZ=2048 -o pan pan.c
./pan -m100000 > found.txt
grep -E 'errors:|states, stored|^pan:1|elapsed' found.txt
if grep -q 'max search depth too small' found.txt; then
    echo "the search was not deep enough"
    exit 1
fi
errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' found.txt)
if [ -z "$bug" ]; then
    [ "$errors" = 0 ] && exit 0
    spin -t -p "$model" | tail -n 200 || true
    exit 1
fi
[ "$errors" != 0 ] || { echo "the bug $bug was not found"; exit 1; }
# The way there; spin ends with a failure, since the assertion fails again.
spin -t -p -D"$bug" "$model" | tail -n 60 || true
