"""`hedgerow simulate`: drawn runs on all cores, exhaustive search, growth, timing of the tree."""

from __future__ import annotations

import copyreg
import gc
import os
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar

from gateway.tools.commands.output import print_json
from gateway.tools.directory_simulation import costs as directory_costs
from gateway.tools.directory_simulation import world as directory_world
from gateway.tools.directory_simulation.world import DirectoryOptions
from tree_handler.simulation import exploration
from tree_handler.simulation import growth as simulation_growth
from tree_handler.simulation import runs as simulation
from tree_handler.simulation import timing as simulation_timing
from tree_handler.simulation.report import Report
from tree_handler.simulation.subjects import SUBJECTS
from tree_handler.simulation.years import YearsOptions

GROWTH = (10, 100, 1_000, 10_000)
"""Gateways in the networks of the table of growth."""
AT_ONCE = 4
"""Runs that a process takes at a time."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def draw(
    runs: int,
    gateways: int,
    gateways_to: int,
    seed: int,
    *,
    subject: str,
    years: int = 1,
    as_json: bool,
) -> bool:
    """Run drawn networks and print what came of each; returns whether all invariants held.

    Args:
        runs: how many.
        gateways: how many gateways each has, or the fewest.
        gateways_to: the most.
        seed: of the first run.
        subject: one of `SUBJECTS`, ``directory`` or ``years``.
        years: how long each run of ``years`` lasts.
        as_json: print one document in the end.

    """
    sizes = {
        number: simulation.drawn_size(number, gateways, gateways_to)
        for number in range(seed, seed + runs)
    }
    if subject == "directory":
        directories = [DirectoryOptions.drawn(number, size) for number, size in sizes.items()]
        reports = _on_all_cores(directory_world.run, directories)
    elif subject == "years":
        fleets = [replace(YearsOptions.drawn(*one), years=years) for one in sizes.items()]
        reports = _on_all_cores(simulation.run, fleets)
    else:
        options = [SUBJECTS[subject].drawn(number, size) for number, size in sizes.items()]
        reports = _on_all_cores(simulation.run, options)
    return _told(reports, runs, as_json=as_json)


def _told(came: Generator[Report, None, None], runs: int, *, as_json: bool) -> bool:
    failed, events = 0, 0
    reports = []
    # Closed where printing fails: the processes would go through all that is left.
    with closing(came):
        for report in came:
            failed += bool(report.violations)
            events += report.events
            if as_json:
                reports.append(_as_json(report))
            else:
                sys.stdout.write(f"{report}\n")
                sys.stdout.flush()
    if as_json:
        print_json({"runs": runs, "failed": failed, "reports": reports})
    else:
        sys.stdout.write(f"{runs} runs, {failed} of them failed; {events} events\n")
    return not failed


def explore(gateways: int, most_states: int, *, as_json: bool) -> bool:
    """Go through all orders of events of small networks; returns whether the invariants held.

    Args:
        gateways: in each network.
        most_states: where a search that is not complete stops.
        as_json: print one document in the end.

    """
    failed = 0
    reports = []
    searches = [search for search in exploration.SEARCHES if search.gateways == gateways]
    explore_one = partial(exploration.run, most_states=most_states)
    with closing(_on_all_cores(explore_one, searches)) as came:
        for search, covered in zip(searches, came, strict=True):
            failed += bool(covered.found)
            if as_json:
                reports.append({"search": str(search), **asdict(covered)})
            else:
                sys.stdout.write(f"{search}: {covered}\n")
                sys.stdout.flush()
    if as_json:
        print_json({"searches": len(searches), "failed": failed, "reports": reports})
    return not failed


def grow(most: int, seed: int, *, as_json: bool) -> None:
    """Print a table of how the tree behaves as networks grow (Markdown, or JSON in the end)."""
    sizes = [gateways for gateways in GROWTH if gateways <= most]
    if as_json:
        print_json([asdict(simulation_growth.grow(gateways, seed=seed)) for gateways in sizes])
        return
    sys.stdout.write(
        "| gateways | depth | cold start, hellos | BPDUs each until then | BPDUs each in a still"
        " hello interval | new root, hellos | BPDUs each until then | tree, bytes each |\n"
        "|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    for gateways in sizes:
        grown = simulation_growth.grow(gateways, seed=seed)
        sys.stdout.write(
            f"| {grown.gateways:,} | {grown.depth} | {grown.cold_start_hellos:.2f}"
            f" | {grown.cold_start_bpdus:.1f} | {grown.still_bpdus:.2f}"
            f" | {grown.new_root_hellos:.2f} | {grown.new_root_bpdus:.1f}"
            f" | {grown.tree_bytes:,} |\n"
        )
        sys.stdout.flush()


def grow_directories(most: int, seed: int, *, as_json: bool) -> None:
    """Print what changes, look-ups and requests cost fleets of directories (Markdown, or JSON)."""
    sizes = [gateways for gateways in GROWTH[:-1] if gateways <= most]
    costs = (cost for gateways in sizes for cost in directory_costs.measure(gateways, seed))
    if as_json:
        print_json([asdict(cost) for cost in costs])
        return
    sys.stdout.write(
        "| gateways | what | messages | bytes | ms | found | busiest head | busiest other |\n"
        "|--:|---|--:|--:|--:|--:|--:|--:|\n"
    )
    for cost in costs:
        sys.stdout.write(
            f"| {cost.gateways:,} | {cost.what} | {cost.messages:,} | {cost.octets:,}"
            f" | {cost.seconds * 1000:.0f} | {cost.found:,} | {cost.head:,} | {cost.others:,} |\n"
        )
        sys.stdout.flush()


def time_faults(runs: int, seed: int, *, as_json: bool) -> None:
    """Print how long a full mesh of five takes to mend itself, over many seeds (Markdown, JSON)."""
    timings = list(_on_all_cores(simulation_timing.time_faults, range(seed, seed + runs)))
    spreads = simulation_timing.spread(timings)
    if as_json:
        columns = ("times", "median_s", "percentile_99_s", "greatest_s")
        print_json({name: dict(zip(columns, row, strict=True)) for name, row in spreads.items()})
        return
    sys.stdout.write("| ms | times | median | 99 % | greatest |\n|---|--:|--:|--:|--:|\n")
    for name, (times, *spread) in spreads.items():
        cells = " | ".join(f"{value * 1000:.0f}" for value in spread)
        sys.stdout.write(f"| {simulation_timing.TITLES[name]} | {times} | {cells} |\n")


def _by_fields(value: Any) -> tuple[type[Any], tuple[Any, ...]]:
    return type(value), tuple(getattr(value, each.name) for each in fields(value) if each.init)


def _to_be_sent(value: _Item) -> _Item:
    """Have its dataclasses sent between processes as the arguments that make them.

    Compiled, frozen ones would be made without their fields, which can't be set any more.
    """
    if isinstance(value, tuple | list):
        for one in value:
            _to_be_sent(one)
    elif is_dataclass(value) and not isinstance(value, type):
        copyreg.pickle(type(value), _by_fields)
        for each in fields(value):
            _to_be_sent(getattr(value, each.name))
    return value


def _on_all_cores(
    work: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Generator[_Result, None, None]:
    rows = [_to_be_sent(item) for item in items]
    processes = min(os.cpu_count() or 1, len(rows))
    if processes <= 1:
        yield from map(work, rows)
        return
    at_once = max(1, min(AT_ONCE, len(rows) // processes))
    with ProcessPoolExecutor(processes, initializer=gc.disable) as pool:
        yield from pool.map(_then_collect, [partial(work, row) for row in rows], chunksize=at_once)


def _then_collect(work: Callable[[], _Result]) -> _Result:
    """Rubbish is collected between runs: to look for it within one costs a fifth of the time."""
    try:
        return _to_be_sent(work())
    finally:
        gc.collect()


def _as_json(report: Report) -> dict[str, Any]:
    document = asdict(report)
    del document["options"]
    document["violations"] = [str(violation) for violation in report.violations]
    return {
        "seed": report.options.seed,
        "gateways": report.options.gateways,
        "replay": report.options.replay,
        **document,
    }
