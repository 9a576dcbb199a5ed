"""The TOML document of a policy; an error names file and line."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from gateway.trust.policy.faults import AccessFileError

_ERROR_LINE = re.compile(r" \(at line (\d+), column \d+\)")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Read a document.

    Args:
        text: of the file.
        file: its name, for errors.

    Raises:
        AccessFileError: it is no TOML.

    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The message ends with its place; "end of document" is the last line.
        place = _ERROR_LINE.search(str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        raise AccessFileError(file, line, f"not TOML: {_ERROR_LINE.sub('', str(error))}") from error
    except (ValueError, RecursionError) as error:  # numbers and tables too long for Python
        raise AccessFileError(file, 0, f"not TOML: {error}") from error
