#!/bin/sh
# The most requests a second of server.c that keep the slowest hundredth of them below a limit.
cd "$(dirname "$0")" || exit 1
exec "${TRIMTAB:-trimtab}" tune-command '{out} {batch} {work}' --param batch=1..512:*2 --param work=10,25,50,100 \
    --compile 'gcc -O2 -o {out} server.c' --metric json:/requests_per_s --maximise \
    --also p99_ms=json:/p99_ms --limit 'p99_ms<5' --evals 25 "$@"
