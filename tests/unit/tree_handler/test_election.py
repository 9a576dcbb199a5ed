from __future__ import annotations

import pytest

from tree_handler.errors import ProtocolError
from tree_handler.spanning.election import Identity, Root


def test_higher_capability_then_lower_address_then_lower_id_is_the_better_root() -> None:
    best_first = [
        Root("gw-z", 1, 9.0, "10.0.0.200"),
        Root("gw-y", 9, 4.0, "9.255.255.255"),
        Root("gw-b", 1, 4.0, "10.0.0.9"),
        Root("gw-c", 1, 4.0, "10.0.0.9"),
        Root("gw-a", 1, 4.0, "10.0.0.10"),
        Root("gw-d", 1, 4.0, "fd00::1"),
        Root("gw-0", 1, 0.0, "1.1.1.1"),
    ]
    worst_first = best_first[::-1]
    assert sorted(worst_first, key=lambda root: root.precedence) == best_first


def test_a_restart_makes_another_tree_of_the_same_precedence() -> None:
    before, after = Root("gw-a", 1, 4.0, "10.0.0.1"), Root("gw-a", 2, 4.0, "10.0.0.1")
    assert before != after
    assert before.precedence == after.precedence


@pytest.mark.parametrize(
    ("gateway_id", "epoch", "capability", "address", "named"),
    [
        ("Gateway", 1, 1.0, "10.0.0.1", "gateway_id"),
        ("-a", 1, 1.0, "10.0.0.1", "gateway_id"),
        ("a" * 64, 1, 1.0, "10.0.0.1", "gateway_id"),
        ("gw", -1, 1.0, "10.0.0.1", "boot_epoch"),
        ("gw", 1, -0.5, "10.0.0.1", "capability"),
        ("gw", 1, float("nan"), "10.0.0.1", "capability"),
        ("gw", 1, 1.0, "gateway.local", "address"),
        ("gw", 1, 1.0, "fe80::1%eth0", "address"),
    ],
)
def test_an_identity_out_of_bounds_is_refused_by_its_field(
    gateway_id: str, epoch: int, capability: float, address: str, named: str
) -> None:
    with pytest.raises(ProtocolError, match=named):
        Identity(gateway_id, epoch, capability, address)
