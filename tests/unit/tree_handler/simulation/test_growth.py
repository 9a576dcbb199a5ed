"""Measures of networks that grow: their links, the memory of a tree, and how fast they settle."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tree_handler.simulation.growth import deep_bytes, grow, regular_network


@pytest.mark.parametrize(
    ("gateways", "degree", "least", "most"),
    [(2, 4, 1, 1), (3, 4, 2, 2), (3, 1, 2, 2), (9, 2, 2, 2), (9, 3, 2, 2), (40, 4, 3, 4)],
)
def test_each_gateway_of_a_regular_network_has_nearly_as_many_links_and_all_are_joined(
    gateways: int, degree: int, least: int, most: int
) -> None:
    pairs = regular_network(gateways, degree, 1)
    assert pairs == sorted(set(pairs)) == regular_network(gateways, degree, 1)
    assert all(0 <= a < b < gateways for a, b in pairs)
    links = Counter(one for pair in pairs for one in pair)
    assert links.keys() == set(range(gateways))
    assert min(links.values()) >= least
    assert max(links.values()) <= most
    assert links.total() / gateways >= most - 0.5
    reached = {0}
    while more := {b for pair in pairs for a, b in (pair, pair[::-1]) if a in reached} - reached:
        reached |= more
    assert len(reached) == gateways


def test_a_gateway_alone_has_no_link() -> None:
    assert regular_network(1, 4, 1) == []


def test_memory_is_counted_once_with_all_that_is_referred_to_and_no_classes() -> None:
    shared = ["x" * 1_000]
    whole = [shared, shared]
    parts = [whole, shared, shared[0]]
    assert deep_bytes(whole) == sum(map(sys.getsizeof, parts))
    assert deep_bytes([int, len]) < sys.getsizeof([int, len]) + 500
    assert deep_bytes(int) == 0


def test_two_gateways_are_one_link_deep_and_say_one_hello_each_in_an_interval() -> None:
    grown = grow(2, 1)
    assert (grown.gateways, grown.degree, grown.depth) == (2, 1, 1)
    assert grown.still_bpdus == 1.0
    assert 0 < grown.cold_start_hellos < 2
    assert grown.cold_start_bpdus > 1
    assert grown.new_root_hellos < 2
    assert grown.new_root_bpdus < grown.cold_start_bpdus
    assert 1_000 < grown.tree_bytes < 16_000


def test_a_ring_of_nine_is_no_deeper_than_it_can_be() -> None:
    grown = grow(9, 2)
    assert grown.depth == 4
    assert grown.still_bpdus == pytest.approx(2.0, abs=0.1)
