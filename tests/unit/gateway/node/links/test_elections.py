"""Elections that a gateway has won are counted, and nothing else is."""

from __future__ import annotations

from gateway.node.links.elections import Elections


def test_each_time_that_a_gateway_becomes_root_counts_but_for_its_start() -> None:
    counted: list[int] = []
    roots = iter(("gw-a", "gw-a", "gw-b", "gw-c", "gw-a", "gw-a", "gw-b", "gw-a"))
    elections = Elections("gw-a", lambda: next(roots))
    for _ in range(8):
        elections.tree_changed(0.0)
        counted.append(elections.count)
    assert counted == [0, 0, 0, 0, 1, 1, 1, 2]
