"""Kernel Tuner's names: ``import trimtab.kernel_tuner as kernel_tuner`` runs its simple examples.

What it has in common: `tune_kernel` and `run_kernel` with the same arguments by the same names and places, results as a list of dicts with
``time`` in milliseconds. What differs is in docs/python.md: ``time`` is the smallest of the runs and not their mean.
"""

from ._kernel import run_kernel, tune_kernel

__all__ = ["run_kernel", "tune_kernel"]
