#!/bin/sh
# The fastest workgroup of stencil.cl by the device's own clock, on whatever OpenCL there is; every result is compared with naive.c.
cd "$(dirname "$0")" || exit 1
exec "${TRIMTAB:-trimtab}" tune stencil.cl --space space.toml --evals 30 "$@"
