"""What the log raises."""

from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(native_class=False)
class LogError(OSError):
    """The log can't be opened or written; the message names the file and the reason."""
