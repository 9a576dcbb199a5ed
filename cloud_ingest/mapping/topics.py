"""Topic filters whose levels may be named: ``plant/{line}/{cell}/data``.

A filter is that of MQTT 5.0, section 4.7, where ``{name}`` stands for one level, as ``+`` does.
"""

from __future__ import annotations

import re
from typing import Final

MAX_FILTER_LENGTH: Final = 1_000
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")

_LEVEL: Final = "[^/]*"


class TopicFilter:
    """A filter, and what its names are in a topic.

    Args:
        text: as a rule writes it.

    Attributes:
        names: of its levels, in their order.

    Raises:
        ValueError: it is no filter; the message says why.

    """

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= MAX_FILTER_LENGTH:
            raise ValueError(f"not 1 to {MAX_FILTER_LENGTH} characters")
        levels = text.split("/")
        names: list[str] = []
        expression = ""
        for at, level in enumerate(levels):
            if level == "#" and at == len(levels) - 1:
                # The level above is meant, too (section 4.7.1.2).
                expression += ".*" if at == 0 else "(?:/.*)?"
                continue
            if level[:1] == "{" and level[-1:] == "}":
                names.append(_name(level[1:-1], names))
                found = f"({_LEVEL})"
            elif level == "+":
                found = _LEVEL
            elif any(sign in level for sign in "+#{}"):
                raise ValueError(f"{level!r} is no whole level: `+`, `{{name}}`, or `#` at the end")
            else:
                found = re.escape(level)
            expression += f"/{found}" if at else found
        self.names = tuple(names)
        self._expression = re.compile(expression, re.DOTALL)
        # A wildcard at the beginning means no topic of the server's own (section 4.7.2).
        self._takes_own = text[0] not in "+#{"

    def match(self, topic: str) -> dict[str, str] | None:
        """Return the levels that have names; None if the topic does not fit."""
        found = self._expression.fullmatch(topic)
        if found is None or (topic[:1] == "$" and not self._takes_own):
            return None
        return dict(zip(self.names, found.groups(), strict=True))


def _name(text: str, before: list[str]) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name: up to 32 of a-z, 0-9 and _")
    if text in before:
        raise ValueError(f"{text!r} stands twice")
    return text
