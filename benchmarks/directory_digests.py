"""Directories that are asked against digests at heads: ``python -m benchmarks.directory_digests``.

Two simulated fleets over production classes do the same work (`benchmarks.digest_work`). In one
the gateways are asked, as in production; in the other each gateway's registrations go to the head
and the substitute of its group, from there to those of its domain and of all, and a look-up goes to
the nearest head that covers its scope. Virtual time; no traffic.

Exit codes: 0 done; 1 the two ways named different resources, or one was wrong after peace; 2 a
wrong argument.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from benchmarks.digest_work import ASKED, DIGESTS, LOOK_UPS, MIX, Figures, Plan, Spent, measure

PLANS: Final = {10: Plan(8, 10, 3600.0), 1_000: Plan(3, 4, 30.0)}
QUICK: Final = {10: Plan(3, 4, 120.0), 16: Plan(2, 3, 60.0)}
RATIOS: Final = (0.01, 0.1, 1.0, 10.0)
"""Look-ups for each change."""
_EXIT_WRONG: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both ways at each size, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(
        "directory_digests", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="10 and 16 gateways, some seconds")
    parser.add_argument("--seed", type=int, default=1, help="of fleets and work (1)")
    options = parser.parse_args(arguments)
    plans = QUICK if options.quick else PLANS
    with ProcessPoolExecutor(2) as pool:
        runs = {
            size: [pool.submit(measure, way, size, options.seed, plan) for way in (ASKED, DIGESTS)]
            for size, plan in plans.items()
        }
        figures = [run.result() for both in runs.values() for run in both]
    print("\n".join(table(figures)))
    faults = list(wrong(figures))
    print("\n".join(faults))
    return _EXIT_WRONG if faults else 0


def wrong(figures: Sequence[Figures]) -> Iterator[str]:
    """Find what should not be in runs, which come in pairs of the two ways."""
    for one in figures:
        yield from (f"{one.way}, {one.gateways}: {what}" for what in one.wrong)
    for asked, digests in _pairs(figures):
        for kind, named in asked.named.items():
            if named != digests.named[kind]:
                yield f"{asked.gateways} gateways, {kind}: the two ways name different resources"


def hour(one: Figures, per_change: float, of: Callable[[Spent], float]) -> float:
    """Return the cost of an hour by the unit costs, one change at each gateway in it.

    Args:
        one: of a fleet.
        per_change: look-ups of the mix for each change.
        of: messages or octets.

    """
    change = (of(one.coming) + of(one.going)) / 2
    return one.gateways * (change + per_change * _mixed(one, of))


def crossing(asked: Figures, digests: Figures, of: Callable[[Spent], float]) -> float:
    """Return the look-ups for each change from which on digests cost less: infinity, if never."""
    changes = hour(digests, 0.0, of) - hour(asked, 0.0, of)
    gained = asked.gateways * (_mixed(asked, of) - _mixed(digests, of))
    if gained <= 0:
        return math.inf
    return max(0.0, changes / gained)


def _mixed(one: Figures, of: Callable[[Spent], float]) -> float:
    return sum(of(one.look_ups[kind]) * share for kind, share in MIX.items()) / sum(MIX.values())


def table(figures: Sequence[Figures]) -> Iterator[str]:
    """Yield the figures, a column for each run."""

    def row(what: str, cell: Callable[[Figures], str]) -> str:
        return " | ".join((f"| {what}", *map(cell, figures))) + " |"

    yield row("", lambda one: f"{one.gateways}, {one.way}")
    yield "|---" * (len(figures) + 1) + "|"
    yield row("all told at the start", lambda one: _cost(one.start))
    yield row("a registration comes", lambda one: _cost(one.coming))
    yield row("a registration goes", lambda one: _cost(one.going))
    for kind in LOOK_UPS:
        yield row(f"look-up: {kind}", lambda one, kind=kind: _timed(one.look_ups[kind]))  # type: ignore[misc]  # the default binds the loop's name
    yield row("busiest for a look-up of all", lambda one: f"{one.look_ups['all'].busiest}")
    for ratio in RATIOS:
        yield row(
            f"an hour, {ratio:g} look-ups for a change",
            lambda one, r=ratio: _amounts(hour(one, r, _messages), hour(one, r, _octets)),  # type: ignore[misc]  # as above
        )
    yield row("the mix, simulated", lambda one: f"{_cost(one.mix)} in {one.mixed_s:g} s")
    yield row("its busiest gateway puts on links", lambda one: f"{one.mix.busiest}")
    yield row("digests at one gateway, most", _memory)
    for at in range(min(len(one.deaths) for one in figures)):
        yield row(f"death {at + 1}", lambda one, at=at: _death(one, at))  # type: ignore[misc]  # as above
    for asked, digests in _pairs(figures):
        yield (
            f"\n{asked.gateways} gateways: digests cost less from "
            f"{crossing(asked, digests, _messages):.2g} look-ups for a change on in messages, "
            f"{crossing(asked, digests, _octets):.2g} in bytes."
        )


def _pairs(figures: Sequence[Figures]) -> Iterator[tuple[Figures, Figures]]:
    yield from zip(figures[::2], figures[1::2], strict=True)


def _messages(spent: Spent) -> float:
    return spent.messages


def _octets(spent: Spent) -> float:
    return spent.octets


def _amounts(messages: float, octets: float) -> str:
    size = f"{octets / 1e6:,.1f} MB" if octets >= 1e6 else f"{octets / 1e3:.1f} KB"
    return f"{messages:,.0f}, {size}"


def _cost(spent: Spent) -> str:
    return _amounts(spent.messages, spent.octets)


def _timed(spent: Spent) -> str:
    return f"{_cost(spent)}, {spent.seconds * 1000:.0f} ms"


def _memory(one: Figures) -> str:
    return f"{one.characters / 1e3:.1f} KB, in memory {one.memory / 1e3:.1f} KB"


def _death(one: Figures, at: int) -> str:
    death = one.deaths[at]
    return (
        f"{death.what}: {death.missing} missing until {death.missing_until_s:.1f} s, "
        f"{death.of_the_dead} of the dead until {death.dead_until_s:.1f} s, "
        f"slowest {death.slowest_s:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
