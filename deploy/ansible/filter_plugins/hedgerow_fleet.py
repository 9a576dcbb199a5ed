"""Filters of the playbooks of day two: in which order gateways restart, and whether one is healthy.

A status is what `hedgerow status --json` prints of a gateway; one that did not answer is empty. It
is that machine's word: one that says nothing of its place, or that it is another gateway, counts
as one that did not answer, so that it takes nobody out of the order.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

# Ansible may run where the project is not installed, such as by ansible-pull on a Pi.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from gateway.releases.health import complaints

Status = Mapping[str, Any]
Graph = Mapping[str, set[str]]


class FilterModule:
    """Called by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that playbooks use."""
        return {
            "hedgerow_batches": batches,
            "hedgerow_complaints": complaints,
            "hedgerow_line": line,
        }


def batches(
    statuses: Mapping[str, Status], at_once: int = 1, rings: Mapping[str, object] | None = None
) -> list[list[str]]:
    """Return hosts in the order in which they restart, those of one list at the same time.

    A ring is whole before the next one begins. In each, those that are deepest in the tree come
    first and its root last, so that it changes but once. No list has gateways of which one is the
    only way of another, or that leave a third one without a way that would have one if only one of
    them restarted.

    Args:
        statuses: by host.
        at_once: the number of hosts that a list may have.
        rings: whole numbers from 1 by host; a host that says none is of the first ring.

    Raises:
        ValueError: `at_once` is less than 1, or a ring is none.

    """
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}, and at least one gateway restarts at a time")
    told = usable(statuses)
    host_of = {status["id"]: host for host, status in told.items()}
    graph = links(told.values())
    ring_of = {host: ring(host, (rings or {}).get(host, 1)) for host in statuses}
    deepest = sorted(
        told.values(),
        key=lambda status: (-int(status.get("hops") or 0), status["parent"] is None, status["id"]),
    )
    # What does not answer disturbs nobody, and nobody knows whose way it is.
    silent = [host for host in sorted(statuses) if host not in told]
    made: list[list[str]] = []
    for number in sorted(set(ring_of.values())):
        made += [[host] for host in silent if ring_of[host] == number]
        waiting = [one["id"] for one in deepest if ring_of[host_of[one["id"]]] == number]
        while waiting:
            batch = [waiting[0]]
            for other in waiting[1:]:
                if len(batch) < at_once and may_restart_together(graph, [*batch, other]):
                    batch.append(other)
            waiting = [gateway for gateway in waiting if gateway not in batch]
            made.append([host_of[gateway] for gateway in batch])
    return made


def ring(host: str, told: object) -> int:
    """Read the ring of a host; a variable of the command line is text.

    Raises:
        ValueError: it is none.

    """
    is_one = isinstance(told, int) and not isinstance(told, bool)
    if (is_one or isinstance(told, str)) and str(told).isdecimal() and int(str(told)) > 0:
        return int(str(told))
    raise ValueError(f"hedgerow_ring of {host}: {told!r} is no whole number from 1 on")


def usable(statuses: Mapping[str, Status]) -> dict[str, Status]:
    """Return the statuses that say which gateway a host is, as no other host does, and its
    place."""
    ids = Counter(str(status.get("id")) for status in statuses.values() if is_status(status))
    return {
        host: status
        for host, status in statuses.items()
        if is_status(status) and ids[status["id"]] == 1
    }


def is_status(told: object) -> bool:
    """Return whether something is a status as far as the order goes by it."""
    if not isinstance(told, Mapping) or not isinstance(told.get("id"), str):
        return False
    neighbours, hops = told.get("neighbours"), told.get("hops") or 0
    return (
        "parent" in told
        and isinstance(hops, int)
        and isinstance(neighbours, Sequence)
        and all(isinstance(one, Mapping) and isinstance(one.get("id"), str) for one in neighbours)
    )


def links(statuses: Iterable[Status]) -> dict[str, set[str]]:
    """Return the neighbours of each gateway, standby links included, as either end tells them."""
    graph: dict[str, set[str]] = {}
    for status in statuses:
        if not status:
            continue
        graph.setdefault(status["id"], set())
        for neighbour in status["neighbours"]:
            graph.setdefault(neighbour["id"], set()).add(status["id"])
            graph[status["id"]].add(neighbour["id"])
    return graph


def may_restart_together(graph: Graph, batch: Sequence[str]) -> bool:
    """Return whether none is another's only way, and others keep each way that one alone leaves."""
    whole = parts(graph, set())
    alone = {one: parts(graph, {one}) for one in batch}
    for way, other in permutations(batch, 2):
        near = [each for each in graph if whole[each] == whole[other] and each != way]
        left = [each for each in near if alone[way][each] == alone[way][other]]
        if whole[way] == whole[other] and (left != near or left == [other]):
            return False
    # Two of a batch at a time, too: who is back first wants a way while the others are away.
    for away in [*map(set, combinations(batch, 2)), set(batch)]:
        left_over = parts(graph, away)
        for first, second in combinations([each for each in graph if each not in away], 2):
            has_way = all(alone[one][first] == alone[one][second] for one in away)
            if has_way and left_over[first] != left_over[second]:
                return False
    return True


def parts(graph: Graph, without: set[str]) -> dict[str, int]:
    """Return the number of the connected part that each gateway is in, when some are away."""
    part: dict[str, int] = {}
    for number, start in enumerate(graph):
        ahead = [start] if start not in without and start not in part else []
        while ahead:
            gateway = ahead.pop()
            part[gateway] = number
            ahead += [o for o in graph[gateway] if o not in without and o not in part]
    return part


def line(symptom: Mapping[str, str]) -> str:
    """Return a finding of `hedgerow doctor --json` as one line."""
    return "{weight}  {about}: {what} ({advice})".format_map(symptom)
