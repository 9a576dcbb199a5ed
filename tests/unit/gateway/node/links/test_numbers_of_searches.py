"""Nobody can guess the numbers of a node's searches."""

from __future__ import annotations

from gateway.node.links.handshake import Credentials
from gateway.node.links.settings import NodeSettings
from tree_handler.batch import MAX_NUMBER
from tree_handler.spanning.spanning_tree import Identity, Parameters


def test_a_node_draws_the_numbers_of_its_searches_and_does_not_count_them() -> None:
    settings = NodeSettings(
        Credentials("gw", "tree", bytes(32)), Identity("gw", 1, 1.0, "10.0.0.1"), Parameters()
    )
    draw = settings.repair(5.0).draw
    assert draw is not None
    drawn = [draw() for _ in range(100)]
    assert len({number >> 40 for number in drawn}) == 100
    assert all(0 < number <= MAX_NUMBER for number in drawn)
