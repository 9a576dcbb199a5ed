"""An hour of a watched fleet in which some gateways have a fault each, and what is to be raised."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from watched_fleet import WatchedFleet

HOUR_S = 3_600.0
RULES = """
[disk-wearing]
window-s = 1800.0
[[override]]
sensor = "water/*"
sensor-stuck = {after-s = 900.0}
sensor-range = {high = 1e6, margin = 10.0}
"""
Raised = Counter[tuple[str, str, bool]]
"""Alerts by kind, gateway and whether they are cleared."""


def raised(alerts: pa.Table) -> Raised:
    """Count the alerts that a table holds, by kind, gateway, and whether they are cleared."""
    return Counter(
        (row["kind"], row["gateway"], row["cleared"] is not None) for row in alerts.to_pylist()
    )


def troubled(count: int) -> tuple[WatchedFleet, Raised]:
    """A fleet in which some have a fault each, and what is to be raised."""
    fleet = WatchedFleet(count)
    draw = fleet.random.randrange
    names = [one.name for one in fleet.gateways]
    wanted: Raised = Counter()

    def goes(index: int, second: float) -> None:
        fleet.when(second, lambda: setattr(fleet[index], "is_down", True))

    def comes(index: int, second: float, ahead_us: int = 0) -> None:
        def come() -> None:
            fleet[index].is_down = False
            fleet[index].restart(second, draw(1, 2**31))
            if ahead_us:
                fleet[index].ahead_us = lambda now: ahead_us

        fleet.when(second, come)

    goes(1, 700)  # for good
    wanted["silent", names[1], False] = 1
    goes(2, 900)
    comes(2, 1_500)
    wanted["silent", names[2], True] = 1
    fleet[3].ahead_us = lambda now: 3_600_000_000
    fleet[4].ahead_us = lambda now: -7_200_000_000
    fleet[5].ahead_us = lambda now: (1 if int(now) % 20 < 10 else -1) * 40_000_000_000
    fleet[6].ahead_us = lambda now: None
    for index in (3, 4, 5, 6):
        wanted["clock-off", names[index], False] = 1
    for step in range(5):  # restarts, quickly: no alert; once with a clock that fell back by 20 s
        goes(7, 400 + 300 * step)
        comes(7, 418 + 300 * step, -20_000_000 if step == 2 else 0)
    for step in range(6):
        fleet.when(
            1_000 + 40 * step, lambda: setattr(fleet[8], "elections", fleet[8].elections + 1)
        )
    wanted["flapping-root", names[8], True] = 1
    fleet[9].written_per_s = 1_000_000.0
    wanted["disk-wearing", names[9], False] = 1
    fleet[10].value = lambda now: now if now < 600 else 20.0
    wanted["sensor-stuck", names[10], False] = 1
    fleet[11].temperature_cel = lambda now: 60 if not 1_000 < now < 2_000 else 80 + int(now) % 3 - 1
    wanted["hot", names[11], True] = 1
    fleet[12].value = lambda now: 2e6 if 1_000 < now < 1_100 else now
    wanted["sensor-range", names[12], True] = 1
    fleet[13].disk_free = 0.01
    wanted["disk-full", names[13], False] = 1
    fleet.when(500, lambda: setattr(fleet[14], "under_voltage", True))
    fleet.when(800, lambda: setattr(fleet[14], "under_voltage", False))
    wanted["under-voltage", names[14], True] = 1
    fleet[15].loses = True
    fleet.when(500, lambda: setattr(fleet[15], "loses", False))
    wanted["gap", names[15], False] = 1
    fleet.when(2_000, lambda: fleet.cut_off.add(names[16]))  # its messages come, much later
    fleet.when(2_600, lambda: fleet.cut_off.discard(names[16]))
    wanted["silent", names[16], True] = 1
    twin = type(fleet[0])(names[17], fleet[17].phase_s + 3, draw(1, 2**31))
    twin.next_s, twin.is_down = twin.phase_s, True
    fleet.gateways.append(twin)
    fleet.when(1_200, lambda: setattr(twin, "is_down", False))
    wanted["two-lives", names[17], False] = 1
    fleet.when(2_800, lambda: setattr(fleet, "is_collector_away", True))  # nobody is silent by that
    fleet.when(3_200, lambda: setattr(fleet, "is_collector_away", False))
    return fleet, wanted
