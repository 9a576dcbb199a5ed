"""The parameters of a registration's query (RFC 9176, section 5)."""

from __future__ import annotations

from collections.abc import Iterable

from resource_directory.errors import InvalidParameterError


class QueryParameters:
    """QueryParameters, of which those with a meaning are taken; what is left are attributes.

    Args:
        query: ``name=value`` each.

    """

    def __init__(self, query: Iterable[str]) -> None:
        self._left: list[tuple[str, str]] = []
        self._names: set[str] = set()
        for parameter in query:
            name, _, value = parameter.partition("=")
            self._left.append((name, value))
            self._names.add(name)

    def take(self, name: str) -> str | None:
        """Return the value of a parameter that may be given once; None if it is not.

        Raises:
            InvalidParameterError: it is given twice.

        """
        if name not in self._names:
            return None
        values = [value for left, value in self._left if left == name]
        if len(values) > 1:
            raise InvalidParameterError("given twice", name)
        self._left = [(left, value) for left, value in self._left if left != name]
        self._names.discard(name)
        return values[0]

    def lifetime_s(self) -> int | None:
        """``lt``, seconds; None if it is not given.

        Raises:
            InvalidParameterError: it is out of range, or no number.

        """
        text = self.take("lt")
        if text is None:
            return None
        # 0 is refused here, where it can still be told from a lifetime that is not given.
        if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) == 0:
            raise InvalidParameterError("lt is not 1 to 4294967295", text)
        return int(text)

    def rest(self) -> list[tuple[str, str]]:
        """Return what was not taken."""
        return self._left
