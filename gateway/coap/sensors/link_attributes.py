"""Attributes of the link of a device's resource (RFC 6690), whatever its class says of itself.

A developer's class is checked before it is served; what it says of itself may be another thing
later. Then its own link is told without attributes, and those of all others as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from gateway.base.printable import said, told

_log: Final = logging.getLogger(__name__)

DescribedLinks = Mapping[str, str | None]
"""Attributes of a link, by their names; None for one that has no value."""


class CheckedLink:
    """The link of one resource, whose attributes are checked each time that they are told.

    Args:
        name: the resource's, for the log.
        check: raises ValueError for what no link can carry; the attribute is named.
        describe: says what the link has.

    """

    def __init__(
        self, name: str, check: Callable[[], None], describe: Callable[[], DescribedLinks]
    ) -> None:
        self._name = name
        self._check = check
        self._describe = describe
        self._wrong = ""
        """The fault in them when they were asked for last; each is said once."""

    def now(self) -> dict[str, str | None]:
        """Return what the link says now; nothing, and an error in the log, if it can't be told."""
        try:
            self._check()
            described = dict(self._describe())
        except Exception as error:  # a developer's own class may say anything
            wrong = told(error) if isinstance(error, ValueError) else said(error)
            if wrong != self._wrong:
                _log.error("%s: %s: its link is told without attributes", self._name, wrong)
            self._wrong = wrong
            return {}
        self._wrong = ""
        return described
