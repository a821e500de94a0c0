"""The benchmarks are programs beside the package; their modules are imported from the root."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
