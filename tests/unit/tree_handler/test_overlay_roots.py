"""A root of a topic overlay says so itself: no member draws messages in another's name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tree_handler.overlay_pair import Wires
from tree_handler.overlays import wire
from tree_handler.overlays.overlays import Say
from tree_handler.overlays.plan import overlay_id
from tree_handler.overlays.wire import Item
from tree_handler.seal import Seals
from tree_handler.simulation.lying import sealing
from tree_handler.spanning.bpdu import Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Identity, Root

IDS = ("gw-a", "gw-b", "gw-c")
ALL = overlay_id(frozenset(IDS))
PAIR = overlay_id(frozenset({"gw-a", "gw-b"}))
roots = st.builds(
    Root,
    st.sampled_from([*IDS, "gw-x"]),
    st.integers(1, 1 << 40),
    st.floats(0, 1e9),
    st.just("10.0.0.1"),
)


def roots_of(wires: Wires) -> set[str]:
    return {gateway.snapshots()[0].root for gateway in wires.gateways.values()}


def has_ways(wires: Wires) -> bool:
    return all(gateway.way("t") is not None for gateway in wires.gateways.values())


def claim(wires: Wires, root: Root) -> bool:
    """gw-c tells gw-b that this is the root, and that it is near; whether gw-b wants to join it."""
    b, c = wires.gateways["gw-b"], wires.gateways["gw-c"]
    said = [m for sender, to, m in wires.sent if (sender, to) == ("gw-c", "gw-b")]
    session = [item for m in said for item in wire.decode(m) if item.overlay == ALL][-1]
    own = c.instances[ALL].tree.identity
    number = 1 << 40
    for kind in (Kind.HELLO, Kind.ACCEPT):
        number += 1
        bpdu = Bpdu(
            kind=kind,
            number=number,
            sender="gw-c",
            sender_epoch=own.boot_epoch,
            capability=own.capability,
            root=root,
            sequence=1 << 20,
            cost_ms=0,
            hops=1,
            parent="gw-a",
            flags=BpduFlags.TRANSIT,
        )
        item = Item(ALL, session.own, session.peer, [bpdu.encode()])
        for message in wire.encode([item]):
            b.receive(wires.link("gw-c"), message, wires.now)
    said = [a.message for a in b.take_actions() if isinstance(a, Say)]
    bpdus = [Bpdu.decode(one) for m in said for item in wire.decode(m) for one in item.bpdus]
    return any(bpdu.kind is Kind.JOIN and bpdu.root == root for bpdu in bpdus)


def better(gateway_id: str) -> Root:
    return Root(gateway_id, 1 << 50, 1e12, "10.0.0.9")


def test_gateways_that_sign_form_an_overlay_as_others_do() -> None:
    wires = Wires.of(*IDS, sealed=IDS)
    wires.run(1.0)
    assert roots_of(wires) == {"gw-a"}
    assert has_ways(wires)
    assert not any(g.counters["overlay_root_unproven"] for g in wires.gateways.values())


def forged() -> list[Root]:
    identity = Identity("gw-c", 1 << 50, 1e12, "10.0.0.9")
    outside = Identity("gw-x", 1 << 50, 1e12, "10.0.0.9")
    own_of_a = sealing("gw-a").stands(replace(identity, gateway_id="gw-a"), PAIR).root
    return [
        better("gw-a"),
        replace(better("gw-a"), seal=sealing("gw-c").stands(identity, ALL).seal),
        own_of_a,  # it stands for election with that in another overlay
        sealing("gw-a").stands(replace(identity, gateway_id="gw-a")).root,  # or in the common tree
        sealing("gw-x").stands(outside, ALL).root,  # its own word, and no member
    ]


@pytest.mark.parametrize("root", forged())
def test_a_root_that_does_not_say_so_itself_is_none(root: Root) -> None:
    wires = Wires.of(*IDS, sealed=IDS)
    wires.run(1.0)
    assert not claim(wires, root)
    b = wires.gateways["gw-b"]
    assert b.counters["overlay_root_unproven"] == 2
    assert b.instances[ALL].tree.root_id == "gw-a"
    wires.run(2.0)
    assert has_ways(wires)


def test_without_signatures_a_member_that_lies_names_any_root() -> None:
    wires = Wires.of(*IDS)
    wires.run(1.0)
    assert claim(wires, better("gw-a"))


def test_a_root_may_still_be_who_says_so_itself() -> None:
    wires = Wires.of(*IDS, sealed=IDS)
    wires.run(1.0)
    strong = Identity("gw-c", 1 << 50, 1e12, "10.0.0.9")
    assert claim(wires, sealing("gw-c").stands(strong, ALL).root)
    assert not wires.gateways["gw-b"].counters["overlay_root_unproven"]


@given(roots, st.sampled_from([ALL, PAIR, b""]), st.sampled_from([ALL, PAIR, b""]))
def test_what_one_stands_for_election_with_counts_there_alone(
    root: Root, made_for: bytes, asked_for: bytes
) -> None:
    signer, reader = sealing(root.gateway_id), sealing("gw-b")
    identity = Identity(root.gateway_id, root.boot_epoch, root.capability, root.address)
    sealed = signer.stands(identity, made_for).root
    for _ in range(2):  # what was looked at before is answered alike
        assert reader.is_candidate(sealed, asked_for) is (made_for == asked_for)
    assert not reader.is_candidate(root, asked_for)


def test_under_another_key_an_overlay_goes_on_as_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = Wires.of(*IDS, sealed=IDS)
    wires.run(1.0)
    a = wires.gateways["gw-a"]
    before = a.instances[ALL].tree.identity
    stands = Seals.stands

    def with_another_key(self: Seals, identity: Identity, overlay: bytes = b"") -> Identity:
        return replace(stands(self, identity, overlay), seal=b"another key")

    monkeypatch.setattr(Seals, "stands", with_another_key)
    monkeypatch.setattr(Seals, "is_candidate", lambda *_: True)
    a.reseal(replace(a.identity, seal=b"of the common tree"))
    after = a.instances[ALL].tree.identity
    assert after == replace(before, seal=b"another key")
    wires.run(2.0)
    assert roots_of(wires) == {"gw-a"}
    assert has_ways(wires)


def test_a_root_of_the_release_before_is_none_and_messages_go_the_routed_way() -> None:
    wires = Wires.of("gw-a", "gw-b", sealed=["gw-b"])
    wires.run(3.0)
    assert not any(gateway.way("t") for gateway in wires.gateways.values())
    assert wires.gateways["gw-b"].counters["overlay_root_unproven"]


def test_a_gateway_of_the_release_before_follows_a_root_that_signs() -> None:
    wires = Wires.of("gw-a", "gw-b", sealed=["gw-a"])
    wires.run(3.0)
    assert has_ways(wires)
    assert roots_of(wires) == {"gw-a"}
