"""Every test run has wisdom of its own, measures little, and hears Ctrl-C."""

from __future__ import annotations

import os
import signal
import tempfile

os.environ.setdefault("TRIMTAB_WISDOM_DIR", tempfile.mkdtemp(prefix="trimtab-python-tests-"))
os.environ.setdefault("TRIMTAB_BUDGET", "2ms")
os.environ.setdefault("TRIMTAB_DEVICE", "cpu")
# Shells start what runs in the background deaf to it, and children would be, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
