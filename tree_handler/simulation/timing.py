"""Speed of the tree in the published set-up (C8): five gateways in full mesh, 10 ms +- 2.5 ms.

A run starts the five, lets the tree settle, and times what brings it back to one tree: after a
link of the tree breaks with a socket error, after the root dies, and after a link of the tree
falls silent. Each is timed from the moment it happens, the broken link from the moment at which
the child is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from light_dataclasses import dataclass
from tree_handler.simulation.checks import astray
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.gateway import Gateway
from tree_handler.simulation.network import FIRST, SECOND, End
from tree_handler.simulation.runs import Options, Simulation

SETTLE_S = 8.0
POLL_S = 0.001
PATIENCE_S = 30.0


TITLES = {
    "cold_start_s": "cold start",
    "switch_s": "link to the parent broken, another feasible neighbour known",
    "stranded_s": "link to the parent broken, none known",
    "new_root_s": "root killed",
    "silent_s": "link to the parent silent",
}
"""The meaning of each time of `Timing`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds until there was one tree again.

    Attributes:
        seed: of the run.
        cold_start_s: from the first start to one tree.
        switch_s: a link to a parent broke whose child knew another feasible neighbour; None if
            there was no such child.
        stranded_s: the same where it knew none; None if there was no such child.
        new_root_s: the root died with socket errors.
        silent_s: a link to a parent fell silent.

    """

    seed: int
    cold_start_s: float
    switch_s: float | None
    stranded_s: float | None
    new_root_s: float
    silent_s: float


def time_faults(seed: int) -> Timing:
    """Time one network of the published set-up.

    Raises:
        TimeoutError: there was no one tree within half a minute of virtual time.

    """
    simulation = _start(seed)
    cold_start_s = _until_one_tree_s(simulation)
    return Timing(
        seed,
        cold_start_s,
        _broken(seed, knows_another=True),
        _broken(seed, knows_another=False),
        _beheaded(seed),
        _silent(seed),
    )


def spread(timings: Iterable[Timing]) -> dict[str, tuple[int, float, float, float]]:
    """For each time how often it was taken, and its median, 99th percentile and greatest, in s."""
    rows = list(timings)
    spreads = {}
    for name in (f.name for f in fields(Timing) if f.name != "seed"):
        times = sorted(t for row in rows if (t := getattr(row, name)) is not None)
        if times:
            last = len(times) - 1
            spreads[name] = len(times), times[last // 2], times[last * 99 // 100], times[last]
    return spreads


def _start(seed: int) -> Simulation:
    options = Options(
        seed,
        gateways=5,
        delay_ms=10.0,
        jitter_ms=2.5,
        spread=1.0,
        redial_s=0.1,
        start_s=0.05,
        traffic_per_s=0.0,
        faults=FaultOptions(rate_per_s=0.0),
    )
    return Simulation(options)


def _settled(seed: int) -> Simulation:
    simulation = _start(seed)
    simulation.start_all()
    simulation.clock.run(SETTLE_S + seed % 97 / 97)  # anywhere within a hello interval
    return simulation


def _until_one_tree_s(simulation: Simulation, since_s: float | None = None) -> float:
    clock = simulation.clock
    if not simulation.gateways:
        simulation.start_all()
        since_s = 0.0
    began_s = clock.now if since_s is None else since_s
    while astray(simulation.gateways, simulation.network):
        if clock.now > began_s + PATIENCE_S:
            raise TimeoutError(f"seed {simulation.options.seed}: no tree in {PATIENCE_S} s")
        clock.run(clock.now + POLL_S)
    return clock.now - began_s


def _tree_ends(simulation: Simulation) -> list[tuple[Gateway, End]]:
    """Return each gateway that has a parent, and its end of the link to it."""
    return [
        (gateway, gateway.ends[link])
        for gateway in simulation.gateways.values()
        if (link := gateway.tree.parent_link) is not None
    ]


def _broken(seed: int, *, knows_another: bool) -> float | None:
    simulation = _settled(seed)
    for gateway, end in _tree_ends(simulation):
        if gateway.tree.has_substitute == knows_another:
            simulation.network.cut(end.connection.edge)
            while end.open:
                simulation.clock.run(simulation.clock.now + POLL_S / 10)
            return _until_one_tree_s(simulation)
    return None


def _beheaded(seed: int) -> float:
    simulation = _settled(seed)
    root_id = next(iter(simulation.gateways.values())).tree.root_id
    simulation.gateways.pop(root_id).stop(silently=False)
    return _until_one_tree_s(simulation)


def _silent(seed: int) -> float:
    simulation = _settled(seed)
    edge = _tree_ends(simulation)[seed % 4][1].connection.edge
    simulation.network.silence(edge, FIRST)
    simulation.network.silence(edge, SECOND)
    # The link is no way any more, but looks live until its silence is noticed.
    connection = next(c for c in simulation.network.connections if c.edge is edge)
    began_s = simulation.clock.now
    while any(end.open for end in connection.ends):
        simulation.clock.run(simulation.clock.now + POLL_S)
    return _until_one_tree_s(simulation, began_s)
