"""A part that is made before who needs it loses nothing until that one says so."""

from __future__ import annotations

from typing import cast

from gateway.broker.broker import GatewayBroker
from gateway.process.running.arrivals import (
    SAYS_NOTHING,
    TOPIC_CHARACTERS,
    LocalReaders,
    NodeArrivals,
)
from gateway.process.running.own_messages import OwnMessages
from tree_handler.batch import Entry, Flags, Header, Row
from tree_handler.errors import ProtocolError

HEADER = Header("far", 1, 1, 1, Flags.CONTROL, 0, 0, 0)


class Broker:
    def __init__(self) -> None:
        self.accepted: list[Entry] = []

    def accept(self, entry: Entry) -> None:
        self.accepted.append(entry)


class Client:
    def __init__(self, *, wants: bool) -> None:
        self.wants = wants
        self.taken: list[Row] = []

    def take(self, rows: list[Row], header: Header) -> None:
        self.taken += rows

    def reads_unlogged(self) -> bool:
        return self.wants


def test_what_the_gateway_publishes_before_its_broker_is_there_comes_first() -> None:
    broker, messages = Broker(), OwnMessages()
    messages.accept(Entry("t", b"1"))
    messages.accept(Entry("t", b"2"))
    messages.go_to(cast(GatewayBroker, broker))
    messages.accept(Entry("t", b"3"))
    assert [one.payload for one in broker.accepted] == [b"1", b"2", b"3"]


def test_all_hear_of_a_control_message_in_the_order_in_which_they_came() -> None:
    heard: list[str] = []
    arrivals = NodeArrivals(lambda kind, what: heard.append(kind))
    arrivals.tell(lambda *_: heard.append("first"), lambda *_: heard.append("second"))
    arrivals.tell(lambda *_: heard.append("third"))
    arrivals.control(Entry("t", b""), HEADER)
    assert heard == ["first", "second", "third"]


def test_a_control_message_that_says_nothing_is_counted_and_nobody_after_hears_of_it() -> None:
    heard: list[str] = []

    def refuse(entry: Entry, header: Header) -> None:
        raise ProtocolError("no word", entry.topic)

    arrivals = NodeArrivals(lambda kind, what: heard.extend((kind, what)))
    arrivals.tell(refuse, lambda *_: heard.append("after"))
    arrivals.control(Entry("t" * (TOPIC_CHARACTERS + 1), b""), HEADER)
    assert heard[0] == SAYS_NOTHING
    assert heard[1].startswith(f"far: {'t' * TOPIC_CHARACTERS!r}: ")
    assert len(heard) == 2


def test_a_message_of_qos_0_is_read_if_any_reader_would_have_it() -> None:
    arrivals = NodeArrivals(lambda *_: None)
    assert not arrivals.reads_unlogged()
    idle, busy = Client(wants=False), Client(wants=True)
    arrivals.give(cast(LocalReaders, idle))
    assert not arrivals.reads_unlogged()
    arrivals.give(cast(LocalReaders, busy))
    assert arrivals.reads_unlogged()
    arrivals.deliver([("t", 0, b"1")], HEADER)
    assert idle.taken == busy.taken == [("t", 0, b"1")]
