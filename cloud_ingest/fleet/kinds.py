"""The kinds of alerts: how bad each is, and what to do. Pure; each kind stands here once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

AlertKind = Literal[
    "silent",
    "gap",
    "flapping-root",
    "clock-off",
    "disk-wearing",
    "disk-full",
    "under-voltage",
    "hot",
    "backup-overdue",
    "sensor-stuck",
    "sensor-range",
    "two-lives",
    "given-up",
    "sensors-unwatched",
    "flapping",
    "ingest-behind",
    "ingest-failing",
    "quarantine-growing",
    "collector-silent",
    "collector-disk",
]
KINDS: Final[tuple[AlertKind, ...]] = get_args(AlertKind)
Severity = Literal["critical", "warning"]
"""``critical``: messages are not seen, or will be lost soon, unless somebody acts."""
INGEST: Final = ""
"""In place of a gateway, of alerts about the job and its collectors: they name none."""


class KindRule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", kw_only=True
):
    """Thresholds of one kind of alert. With ``on = false`` it is never raised."""

    on: bool = True


@dataclass(frozen=True, slots=True)
class AboutKind:
    """The severity and the advice that all alerts of one kind share.

    Attributes:
        severity: how bad it is.
        what_to_do: the first step, and the page that says more.

    """

    severity: Severity
    what_to_do: str


_PAGE: Final = "docs/what-to-do-when.md"
_SILENT: Final = f"{_PAGE}#a-gateway-is-silent"
_DISK: Final = f"{_PAGE}#the-disk-is-full"
_INGEST: Final = f"{_PAGE}#the-ingest-raises-an-alert"
_ALERTS: Final = "docs/monitoring.md#alerts-of-a-fleet"

ABOUT: Final[Mapping[AlertKind, AboutKind]] = {
    "ingest-failing": AboutKind("critical", _INGEST),
    "collector-disk": AboutKind("critical", _INGEST),
    "collector-silent": AboutKind("critical", _INGEST),
    "silent": AboutKind("critical", f"hedgerow status HOST, then {_SILENT}"),
    "two-lives": AboutKind("critical", f"{_PAGE}#a-card-was-cloned"),
    "disk-full": AboutKind("critical", _DISK),
    "ingest-behind": AboutKind("warning", _INGEST),
    "quarantine-growing": AboutKind("warning", _INGEST),
    "given-up": AboutKind("warning", f"see which starts it has: {_ALERTS}"),
    "gap": AboutKind("warning", f"see whether its origin still has them: {_ALERTS}"),
    "flapping": AboutKind("warning", f"look for what comes and goes: {_ALERTS}"),
    "flapping-root": AboutKind("warning", f"look at its links: {_PAGE}#there-is-no-link"),
    "clock-off": AboutKind("warning", f"{_PAGE}#the-clock-is-wrong"),
    "disk-wearing": AboutKind("warning", f"find what writes so much on that machine: {_DISK}"),
    "under-voltage": AboutKind("warning", "take a better supply and a shorter cable"),
    "hot": AboutKind("warning", "give it air, or a heat sink"),
    "backup-overdue": AboutKind(
        "warning", "journalctl -u hedgerow-gateway-backup there: docs/backups.md#overdue"
    ),
    "sensor-range": AboutKind("warning", f"look at what the sensor measures: {_ALERTS}"),
    "sensor-stuck": AboutKind("warning", f"look at the sensor: {_ALERTS}"),
    "sensors-unwatched": AboutKind(
        "warning", f"let its rules be for fewer sensors, or raise kept.sensors: {_ALERTS}"
    ),
}
"""The worst first: what is critical stands before what is a warning, and of one severity what
blinds the watch, who is not heard, what is lost, what will break, what one sensor does."""
_PLACES: Final[Mapping[str, int]] = {kind: place for place, kind in enumerate(ABOUT)}
_KNOWN: Final[Mapping[str, str]] = {kind: about.severity for kind, about in ABOUT.items()}
_SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)


def rank(kind: str, severity: str | None) -> tuple[int, int]:
    """Return the place of an alert among others: the less, the worse it is.

    A kind or a severity of a later version, which nobody here knows, ranks before those that are
    known.

    Args:
        kind: of the alert.
        severity: as the alert's row says; None where an earlier version wrote the row.

    """
    told = severity or _KNOWN.get(kind)
    return (_SEVERITIES.index(told) if told in _SEVERITIES else -1, _PLACES.get(kind, -1))
