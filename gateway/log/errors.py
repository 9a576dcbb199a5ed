"""What the log raises."""

from __future__ import annotations


class LogError(OSError):
    """The log can't be opened or written; the message names the file and the reason."""
