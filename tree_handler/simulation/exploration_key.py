"""The key of a state: two states have the same if the same can happen from both.

Left out is what only counts or tells: counters, the numbers of HELLOs, the zero of a clock. The
numbers of JOINs are compared by how long ago they were given.
"""

from __future__ import annotations

from tree_handler.spanning.bpdu import Bpdu, Kind
from tree_handler.spanning.feasibility import SourceEntry
from tree_handler.spanning.neighbour import Neighbour
from tree_handler.spanning.spanning_tree import SpanningTree


def tree_key(tree: SpanningTree, now: float) -> object:
    """Return the key of one gateway's tree at its own time."""
    place, agreements, number = tree._place, tree._agreements, tree._announcer.number
    candidate, parent = agreements.candidate, place.parent
    longest_s = tree.parameters.request_interval_s
    return (
        place.root,
        None if parent is None else parent.link,
        place.hops,
        place._sequence,
        place._own_sequence,
        None if candidate is None else candidate.link,
        frozenset(agreements.forwarding),
        _ms(tree._hello_at - now),
        _ms(tree._raise_at - now),
        _ms(max(tree._raised_s - now, -longest_s)),
        _ms(tree._choice.give_up_at - now),
        _ms(tree._silence.look_at - now),
        tree._announced,
        tuple(_neighbour_key(n, number, now) for n in tree._neighbours.values()),
        tuple(
            (root_id, source.distance, _earlier_key(source, now))
            for root_id, source in sorted(tree._sources._by_root.items())
        ),
    )


def _earlier_key(source: SourceEntry, now: float) -> object:
    if not source.earlier_epoch:
        return None
    return source.earlier_epoch, source.earlier_sequence, _ms(source.earlier_s - now)


def _neighbour_key(neighbour: Neighbour, number: int, now: float) -> object:
    offer = neighbour.offer
    return (
        neighbour.link,
        neighbour.peer_id,
        neighbour.epoch,
        _ms(neighbour.last_heard_s - now),
        None
        if offer is None
        else (offer.root, offer.distance, offer.hops, offer.transit, offer.seeking, offer.agrees),
        number - neighbour.asked if neighbour.asked else None,
        neighbour.granted,
        neighbour.refused,
        neighbour.child_root,
        neighbour.told,
        neighbour.requested,
        neighbour.round_trip.cost_ms,
    )


def message_key(bpdu: Bpdu | None, sender_number: int, receiver_number: int) -> object:
    """Return the key of a BPDU under way, given the last numbers of its sender and receiver."""
    if bpdu is None:
        return None
    hello = bpdu.kind is Kind.HELLO
    return (
        bpdu.kind,
        None if hello else sender_number - bpdu.number,
        bpdu.sender_epoch,
        bpdu.root,
        bpdu.sequence,
        bpdu.cost_ms,
        bpdu.hops,
        int(bpdu.flags),
        receiver_number - bpdu.answers if bpdu.answers else None,
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
