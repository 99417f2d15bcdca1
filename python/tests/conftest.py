"""Every test run has wisdom of its own, and measures little."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("TRIMTAB_WISDOM_DIR", tempfile.mkdtemp(prefix="trimtab-python-tests-"))
os.environ.setdefault("TRIMTAB_BUDGET", "2ms")
os.environ.setdefault("TRIMTAB_DEVICE", "cpu")
