#!/bin/sh
# The fastest flags for nbody.c, by wall time. Compiling one point goes on while another is measured.
cd "$(dirname "$0")" || exit 1
exec "${TRIMTAB:-trimtab}" tune-command '{out}' --space space.toml \
    --compile 'gcc -O{level} {native:+-march=native} {fast:+-ffast-math} {unroll:+-funroll-loops} {lto:+-flto} {frame} -o {out} nbody.c -lm' \
    --evals 40 "$@"
