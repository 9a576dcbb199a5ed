"""What has happened since the last checkpoint that only the next one tells."""

from __future__ import annotations


class Changes:
    """What the next checkpoint has to say anew, besides sessions.

    Attributes:
        ended: numbers of sessions that have ended.
        retained: topics whose retained message has changed.

    """

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.retained: set[str] = set()
