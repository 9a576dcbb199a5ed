"""Tally of the messages in the telemetry table, as an account that adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from light_dataclasses import dataclass

SentKey = tuple[str, int]
"""A message as its device knows it: topic and number."""

ACKNOWLEDGED = "readings of the devices, each acknowledged to its device"
UNACKNOWLEDGED = "readings of the devices whose acknowledgement the kill cut off"
AGAIN = "copies of a device's reading beyond the first"
SENSORS = "of the gateways' own: sensors (load, memory, a valve), and how they are"
OTHERS = "other messages"
_ALWAYS = (ACKNOWLEDGED, UNACKNOWLEDGED, SENSORS)
"""Lines that stand in the account though nothing is in them."""


@dataclass(frozen=True, slots=True)
class AccountLine:
    """One kind of message, by the gateway that took it."""

    what: str
    by_gateway: Mapping[str, int]

    @property
    def total(self) -> int:
        """The number of all gateways together."""
        return sum(self.by_gateway.values())


@dataclass(frozen=True, slots=True)
class Tally:
    """The account.

    Attributes:
        lines: what was counted by topic and number, each message in one of them.
        in_table: messages that the Spark job counted, by gateway; it knows nothing of the lines.
        control: messages between gateways, which are in the spool and not in the table.

    """

    lines: tuple[AccountLine, ...] = ()
    in_table: Mapping[str, int] = field(default_factory=dict)
    control: int = 0

    @property
    def adds_up(self) -> bool:
        """Return whether the lines make what Spark counted, at every gateway."""
        summed: Counter[str] = Counter()
        for line in self.lines:
            summed.update(line.by_gateway)
        return +summed == +Counter(self.in_table)

    @property
    def total(self) -> int:
        """Messages in the table, as Spark counted them."""
        return sum(self.in_table.values())

    def as_json(self) -> dict[str, Any]:
        """With its sums."""
        return {
            "lines": [asdict(line) | {"total": line.total} for line in self.lines],
            "in_table": dict(self.in_table),
            "total": self.total,
            "control": self.control,
            "adds_up": self.adds_up,
        }

    def as_text(self) -> list[str]:
        """Return lines for a terminal."""
        control = (
            "messages between gateways (who belongs to the fleet, and where): not in the table"
        )
        figures = [
            *((line.total, line.what) for line in self.lines),
            (self.total, "in the table, as Spark counted them"),
            (self.control, f"beside these, {control}"),
        ]
        shown = [(f"{count:,}", what) for count, what in figures]
        width = max(len(count) for count, _ in shown)
        lines = [f"{count:>{width}}  {what}" for count, what in shown]
        return lines if self.adds_up else [*lines, "These do not add up."]


def tally(
    rows: Iterable[tuple[str, str, int]],
    device_rows: Iterable[tuple[str, SentKey]],
    acknowledged: Collection[SentKey],
    is_sensor: Callable[[str, str], bool],
    fleet: Iterable[Mapping[str, Any]],
) -> Tally:
    """Put each message of the table into one line.

    Args:
        rows: how often each origin and topic stands in the table.
        device_rows: the origin and key of each row that has a device's topic.
        acknowledged: what the devices have an acknowledgement for.
        is_sensor: whether an origin's topic is that of a sensor of its own.
        fleet: rows of the fleet table: ``gateway``, ``messages``, ``control``.

    """
    gateways = list(fleet)
    counts: dict[str, Counter[str]] = {what: Counter() for what in _ALWAYS}
    seen: set[SentKey] = set()
    for origin, key in device_rows:
        what = AGAIN if key in seen else ACKNOWLEDGED if key in acknowledged else UNACKNOWLEDGED
        seen.add(key)
        counts.setdefault(what, Counter())[origin] += 1
    device_topics = {topic for topic, _ in seen}
    for origin, topic, count in rows:
        if topic not in device_topics:
            what = SENSORS if is_sensor(origin, topic) else OTHERS
            counts.setdefault(what, Counter())[origin] += count
    return Tally(
        tuple(AccountLine(what, dict(by_gateway)) for what, by_gateway in counts.items()),
        {row["gateway"]: row["messages"] for row in gateways},
        sum(row["control"] for row in gateways),
    )
