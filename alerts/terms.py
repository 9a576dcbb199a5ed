"""Terms of the alerts of one rule, and where they go. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from alerts.matcher import AlertMatcher
from alerts.record import AlertRecord
from light_dataclasses import dataclass

AlertSeverity = Literal["critical", "warning"]
SEVERITIES: Final[tuple[AlertSeverity, ...]] = ("critical", "warning")
"""The worst first."""
CHAT_SERVICES: Final = ("slack", "discord", "teams")
"""Chats of teams whose incoming webhooks are known (`alerts.ways.team_chat`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """The terms under which a fault becomes an alert, and under which the alert closes.

    Attributes:
        severity: how bad it is.
        after_s: it has to be wrong for so long.
        clears_after_s: and well for so long.
        what_to_do: the first step, and the page that says more.
        hides: while such an alert stands or is about to, nothing else is told of the same gateway,
            and no alert that hides as well of those below it in the tree.

    """

    severity: AlertSeverity
    after_s: float
    clears_after_s: float
    what_to_do: str
    hides: bool = False


@dataclass(frozen=True, slots=True)
class AlertRoute:
    """A route: which alerts are sent by which ways, and when.

    Attributes:
        matcher: which.
        ways: their names.
        after_s: only those that nobody has taken on so long after they were told; 0 for all.
        quiet_min: from and to which minute of the day they wait; None for never.
        digest_min: at which minute of the day all of a day leave together; None for at once.

    """

    matcher: AlertMatcher
    ways: tuple[str, ...]
    after_s: float = 0.0
    quiet_min: tuple[int, int] | None = None
    digest_min: int | None = None


def ways_of(
    record: AlertRecord,
    routes: Sequence[AlertRoute],
    ways: Sequence[str],
    untaken_s: float = 0.0,
) -> list[str]:
    """Return on which ways a record leaves.

    Args:
        record: it.
        routes: each that matches counts; without any route all alerts go all ways.
        ways: that there are.
        untaken_s: since the alert was told, if nobody has taken it on.

    """
    if not routes:
        return list(ways)
    due = [one for one in routes if one.after_s <= untaken_s and one.matcher.matches(record)]
    meant = {way for one in due for way in one.ways}
    return [way for way in ways if way in meant]
