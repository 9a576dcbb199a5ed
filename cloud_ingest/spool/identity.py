"""Identity of a spool: a name drawn at random, in a file beside its segments.

Whatever its bytes are, another disk in the spool's folder has another name. Spools of before have
none, until their collector starts again, which gives them one (`cloud_ingest.collector.keeping`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FILE_NAME: Final = "identity"
NAME_BYTES: Final = 16
_NAME = re.compile(r"([0-9a-f]{32})\n?")


def read(spool: Path) -> str:
    """Return the name of a spool, hexadecimal; empty where it has none that can be read."""
    try:
        with (spool / FILE_NAME).open("rb") as file:
            found = _NAME.fullmatch(file.read(2 * NAME_BYTES + 2).decode("ascii", "replace"))
    except OSError:
        return ""
    return found[1] if found else ""
