#!/bin/sh
# The fastest tile sizes for matmul.c, by the time it measures itself; it checks its result and says so by its exit code.
cd "$(dirname "$0")" || exit 1
exec "${TRIMTAB:-trimtab}" tune-command '{out}' --space space.toml --metric 'regex:([0-9.]+) ms' --is-time \
    --compile 'gcc -O3 -march=native {unroll:+-funroll-loops} -DTILE_I={ti} -DTILE_J={tj} -DTILE_K={tk} -o {out} matmul.c -lm' \
    --evals 40 "$@"
