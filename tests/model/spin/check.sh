#!/usr/bin/env bash
# check.sh: runs Spin over every state of a Promela model.
#
#     check.sh <model.pml> <folder to work in> [bug]
#
# Without a bug Spin must find no error; with one (a macro of the model) it must find one. Exit code
# 77 without spin, or without a compiler for its output.
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
# Print the trail; spin fails again at the assertion.
spin -t -p -D"$bug" "$model" | tail -n 60 || true
