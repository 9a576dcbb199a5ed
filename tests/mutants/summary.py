"""Reads what pytest says in the end."""

from __future__ import annotations

import re

_BEGIN = "short test summary info"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def first_failed(output: str) -> str | None:
    """Return the first test that failed, or file that could not be read; None if none is named.

    Args:
        output: of a run with ``-rfE``. Lines of logs above its summary may begin alike, and a
            parameter may have spaces.

    """
    match = _FAILED.search(output.rpartition(_BEGIN)[2])
    return None if match is None else match[1]
