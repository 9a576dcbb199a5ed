"""Look-ups after the death of a head: what they tell, and for how long it is not the truth."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.digest_keepers import Scope
from gateway.tools.directory_simulation.ledger import endpoint_of, owner_of
from gateway.tools.directory_simulation.world import DirectoryWorld
from resource_directory.link_format import WebLink
from resource_directory.scoped import STALE

WATCHED_S: Final = 20.0
POLLS: Final = 12
ASKERS: Final = 10


@dataclass(frozen=True, slots=True)
class _Look:
    began_s: float
    ended_s: float
    missing: int
    of_the_dead: int


@dataclass(frozen=True, slots=True)
class Death:
    """The answers of look-ups after a head had died; seconds are from its death.

    Attributes:
        what: it headed: a group, a domain, all.
        missing: links of living gateways that the worst look-up lacked.
        missing_until_s: the beginning of the last such look-up; 0 if there was none.
        of_the_dead: links of the dead one that the worst look-up told as if it were there.
        dead_until_s: the beginning of the last such look-up.
        slowest_s: the time that the slowest took.
        answered: look-ups that were answered.

    """

    what: str
    missing: int
    missing_until_s: float
    of_the_dead: int
    dead_until_s: float
    slowest_s: float
    answered: int


def die(
    world: DirectoryWorld, what: str, scope: Scope, victim: str, chance: random.Random
) -> Death:
    """Kill a head, look up in its scope from gateways of it, and let it come back."""
    looks: list[_Look] = []
    within = sorted(
        name
        for name, node in world.nodes.items()
        if name != victim
        and node.record.capability > 0
        and scope[0] in ("", node.record.domain)
        and scope[1] in ("", node.record.group)
    )
    askers = chance.sample(within, min(ASKERS, len(within)))
    due = world.ledger.at(within, world.now, 600.0)
    died_s = world.now
    world.kill(victim)

    def look(name: str) -> None:
        began_s = world.now

        def told(links: list[WebLink]) -> None:
            plain = {endpoint_of(one) for one in links if one.get(STALE) is None}
            told_of = {endpoint_of(one) for one in links}
            dead = sum(owner_of(one) == victim for one in plain)
            lacks = len(due - told_of)
            looks.append(_Look(began_s, world.now, lacks, dead))

        world.look_up(world.nodes[name], f"scope={what}", told=told)

    for number in range(POLLS):
        at_s = died_s + 0.1 + WATCHED_S * number / POLLS
        world.fleet.clock.at(at_s, partial(look, askers[number % len(askers)]))
    world.fleet.run(WATCHED_S + 10.0)
    world.start(victim)
    world.fleet.run(20.0)
    return _summed(what, looks, died_s)


def _summed(what: str, looks: list[_Look], died_s: float) -> Death:
    lacking = [one for one in looks if one.missing]
    dead = [one for one in looks if one.of_the_dead]
    return Death(
        what,
        max((one.missing for one in lacking), default=0),
        max((one.began_s - died_s for one in lacking), default=0.0),
        max((one.of_the_dead for one in dead), default=0),
        max((one.began_s - died_s for one in dead), default=0.0),
        max((one.ended_s - one.began_s for one in looks), default=0.0),
        len(looks),
    )
