"""The command: ``python -m trimtab --help`` and the script ``trimtab`` are the same."""

from __future__ import annotations

import signal
import sys

from ._native import _command


def main() -> int:
    """Runs the command with this process's arguments."""
    # Ctrl-C is the command's to hear: Python would wait until it is back.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _command(["trimtab", *sys.argv[1:]], [sys.executable, "-m", "trimtab"])


if __name__ == "__main__":
    sys.exit(main())
