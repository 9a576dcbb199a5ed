"""Lets these tests share modules: their own, and the simulated clients' of the broker."""

from __future__ import annotations

import sys
from pathlib import Path

# No package holds these under --import-mode=importlib.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "simulation")]
