#!/bin/sh
# The fastest workgroup of matmul.wgsl by the GPU's own clock; every result is compared with naive.c.
cd "$(dirname "$0")" || exit 1
exec "${TRIMTAB:-trimtab}" tune matmul.wgsl --space space.toml --evals 30 "$@"
