#!/usr/bin/env bash
# fuzz.sh: runs fuzz targets for a number of seconds each, from their corpus and earlier findings.
#
#     tools/fuzz.sh <build tree of make fuzz> <seconds> [target ...]
#
# An input that breaks a target fails the run and is kept in <tree>/found/: fix the fault and add
# the input to the corpus.
set -euo pipefail
tree=$(realpath "$1") seconds=$2
shift 2
cd "$(dirname "$0")/../tests/fuzz"

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for corpus in corpus/*/; do
        targets+=("$(basename "$corpus")")
    done
fi

export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
mkdir -p "$tree/found"
failed=()
for target in "${targets[@]}"; do
    echo "== $target: $seconds s"
    mkdir -p "$tree/corpus/$target"
    dictionary=()
    if [ -e "$target.dict" ]; then
        dictionary=(-dict="$target.dict")
    fi
    log=$tree/$target.log
    if ! "$tree/tests/fuzz/$target" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
        -artifact_prefix="$tree/found/$target-" "${dictionary[@]}" \
        "$tree/corpus/$target" "corpus/$target" > "$log" 2>&1; then
        tail -n 40 "$log"
        failed+=("$target")
    fi
    grep -E 'number_of_executed_units|average_exec_per_sec|cov: ' "$log" | tail -n 3
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "broken: ${failed[*]}; the inputs are in $tree/found" >&2
    exit 1
fi
