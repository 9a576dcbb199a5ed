"""Messages for one gateway alone: they go where it is, and never round in circles."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.errors import ProtocolError
from tree_handler.routing.direct import HOPS, Direct, DirectMessage
from tree_handler.routing.locator import Locator, ReachUpdate


def chain(*names: str) -> dict[str, Locator]:
    """Gateways in a line; link 1 leads to the one before, link 2 to the one after."""
    found = {name: Locator(name, 1) for name in names}
    for at, name in enumerate(names):
        links = {}
        if at:
            links[1] = dict.fromkeys(names[:at], 1)
        if at < len(names) - 1:
            links[2] = dict.fromkeys(names[at + 1 :], 1)
        found[name].forwards(links.keys())
        for link, behind in links.items():
            found[name].receive(link, ReachUpdate(True, behind))
    return found


def test_a_message_is_seen_by_those_on_the_way_alone() -> None:
    locators = chain("a", "b", "c", "d")
    nodes = {name: Direct(name, locator) for name, locator in locators.items()}
    sent = nodes["a"].send("c", "t", b"hello")
    assert sent is not None
    assert sent[0] == 2
    onward = nodes["b"].receive(1, sent[1])
    assert isinstance(onward, tuple)
    assert onward[0] == 2
    assert nodes["c"].receive(1, onward[1]) == DirectMessage("c", HOPS - 1, "t", b"hello")
    assert nodes["b"].counters.passed_on == 1


def test_for_whom_no_link_is_known_all_have_to_be_told() -> None:
    node = Direct("a", chain("a", "b")["a"])
    assert node.send("z", "t", b"") is None
    assert node.counters.flooded == 1


def test_nothing_goes_back_or_on_for_ever() -> None:
    node = Direct("b", chain("a", "b", "c")["b"])
    assert node.receive(1, DirectMessage("a", 9, "t", b"").encode()) is None
    assert node.receive(1, DirectMessage("z", 9, "t", b"").encode()) is None
    assert node.receive(1, DirectMessage("c", 1, "t", b"").encode()) is None
    assert node.counters.dropped == 3


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert DirectMessage.decode(data).encode()


def test_a_topic_may_have_128_characters_and_no_more() -> None:
    longest = DirectMessage("gw-b", HOPS, "ä" * 128, b"")
    assert DirectMessage.decode(longest.encode()) == longest
    for topic in ("", "ä" * 129):
        with pytest.raises(ProtocolError, match="message for one gateway"):
            DirectMessage.decode(DirectMessage("gw-b", HOPS, topic, b"").encode())


@given(st.text("abc-", min_size=1, max_size=5), st.integers(0, HOPS), st.binary(max_size=20))
def test_a_message_survives_its_wire_form(receiver: str, hops: int, payload: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        made = DirectMessage(receiver, hops, "$hedgerow/query/a", payload)
        assert DirectMessage.decode(made.encode()) == made
