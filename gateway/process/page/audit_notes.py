"""Audit notes on visitors of the page: what they did and were refused, counted too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gateway.base.event_log.audit import AuditTrail, Detail
from gateway.base.printable import told
from gateway.broker.inbound.admission import refused_for
from gateway.mqtt import ReasonCode
from tree_handler.rate_limit import RateLimit

REFUSED_AT_ONCE: Final = 30
REFUSED_PER_S: Final = 1 / 60
"""Refusals that the trail has: a stranger must not push out what happened before."""
COMINGS_AT_ONCE: Final = 10
WRONG_PASSWORD: Final = refused_for(ReasonCode.BAD_USER_NAME_OR_PASSWORD)
"""As the broker counts it: guesses are guesses, whichever door they are made at."""
COMINGS_PER_S: Final = 1 / 60
"""Log-ins and log-outs of each user that it has, for the same reason."""

_log = logging.getLogger(__name__)


class AuditNotes:
    """Notes of the page in the gateway's audit trail: all changes, and a bounded part of the rest.

    Args:
        trail: of the gateway.
        counted: takes the kind of what was refused, and whose.

    """

    def __init__(self, trail: AuditTrail, counted: Callable[[str, str], None]) -> None:
        self._trail = trail
        self._counted = counted
        self._refusals = RateLimit(REFUSED_PER_S, REFUSED_AT_ONCE)
        self._comings = RateLimit(COMINGS_PER_S, COMINGS_AT_ONCE)

    def changed(self, who: str, what: str, **of: Detail) -> None:
        """Note a change that ``who`` made; unlike refusals, none is left out for want of room."""
        self._note(who, what, of)

    def came_or_went(self, who: str, what: str, host: str) -> None:
        """Note a log-in or a log-out, while there are not too many of that user."""
        if self._comings.allow(who, asyncio.get_running_loop().time()):
            self._note(who, what, {"address": host})

    def refused(self, kind: str, who: str, host: str, counted_as: str = "") -> None:
        """Count a refusal, and note it while there are not too many.

        Args:
            kind: of it, in the program's own words.
            who: asked, as far as it is known.
            host: its address.
            counted_as: how it is counted; as one of the page's own kinds if it is not given.

        """
        self._counted(counted_as or f"page: {kind}", f"{who[:64]!r} ({host})")
        if self._refusals.allow("", asyncio.get_running_loop().time()):
            self._note(who, "refused at the page", {"why": kind, "address": host})

    def _note(self, who: str, what: str, of: dict[str, Detail]) -> None:
        try:
            self._trail.remark(who, what, **of)
        except OSError as error:
            _log.error("the audit trail does not have that %s: %s: %s", who, what, told(error))
