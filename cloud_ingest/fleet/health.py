"""Health of a gateway, as far as the watch knows: `good` is said of evidence alone.

A row's health is decided here and nowhere else. What is known best comes first: that it is silent,
that something is wrong with it, that what it said is old, that nothing of it could be read; and
only who said a moment ago that it is well, and about whom no alert is open, is good.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, get_args

from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.rules import Silent

HealthState = Literal[
    "silent", "warning", "unreadable", "stale", "unknown", "no-status", "left", "good"
]
STATES: Final[tuple[HealthState, ...]] = get_args(HealthState)
"""The worst first."""
DRAINING: Final = "draining"
"""The role of a gateway that leaves on purpose, after which it is not silent but gone."""
FIRST_RECORD_US: Final = 60_000_000
"""A gateway has said a record of its state so long after it was first heard, if it is one that
does: what comes from a plain broker or from Kafka never says one."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a gateway.

    Attributes:
        state: in a word.
        why: in a sentence, for a person; None where it is good.

    """

    state: HealthState
    why: str | None = None


def silence_limit_us(gateway: GatewayState, rule: Silent) -> int | None:
    """Return how long it may say nothing, microseconds.

    None if it never said how often it speaks.
    """
    record = gateway.status
    if record is None:
        return None
    return round(max(rule.least_s, rule.intervals * record.interval_s) * 1e6)


def health(gateway: GatewayState, rule: Silent, alerts: Collection[str], now_us: int) -> Health:
    """Say how a gateway is.

    Args:
        gateway: it.
        rule: when it is silent.
        alerts: kinds of alerts that are open about it.
        now_us: until when the watch has heard, by its own time.

    """
    if "silent" in alerts:
        return Health("silent", "nothing is heard of it")
    if alerts:
        return Health("warning", "open alerts: " + ", ".join(sorted(alerts)))
    limit_us = silence_limit_us(gateway, rule)
    if gateway.status is None or limit_us is None:
        return _without_record(gateway, now_us)
    age_us = now_us - gateway.status_us
    if age_us <= limit_us:
        return Health("good")
    if DRAINING in gateway.status.roles and now_us - gateway.last_us > limit_us:
        return Health("left", "it said that it leaves, and has")
    return Health("stale", f"its last status record is {age_us / 1e6:.0f} s old")


def _without_record(gateway: GatewayState, now_us: int) -> Health:
    if gateway.record_error is not None:
        return Health("unreadable", f"none of its records was read: {gateway.record_error}")
    if gateway.messages and now_us - gateway.first_us > FIRST_RECORD_US:
        return Health("no-status", "its messages come, and never a status record")
    return Health("unknown", "it has not said yet how it is")
