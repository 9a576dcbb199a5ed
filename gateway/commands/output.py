"""What commands print for scripts."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(document: Any) -> None:
    """One document, to standard output."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
