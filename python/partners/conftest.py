"""As the tests beside it: wisdom of its own, little measuring."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
os.environ.setdefault("TRIMTAB_WISDOM_DIR", tempfile.mkdtemp(prefix="trimtab-python-partners-"))
os.environ.setdefault("TRIMTAB_BUDGET", "2ms")
os.environ.setdefault("TRIMTAB_DEVICE", "cpu")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
