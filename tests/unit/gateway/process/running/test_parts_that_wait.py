"""A part that is made before who needs it loses nothing until that one says so."""

from __future__ import annotations

from typing import cast

import pytest

from gateway.broker.broker import GatewayBroker
from gateway.broker.data_plane import DataPlane
from gateway.process.running.arrivals import (
    SAYS_NOTHING,
    TOPIC_CHARACTERS,
    LocalReaders,
    NodeArrivals,
)
from gateway.process.running.own_messages import OwnMessages
from gateway.process.running.readings import Readings
from gateway.trust.policy.origins import OriginRights, OriginRules
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


class Deliveries:
    """The broker's clients, and what they were handed of other gateways."""

    def __init__(self, *subscriptions: str) -> None:
        self.subscriptions = subscriptions
        self.remote_delivery = self
        self.batches: list[tuple[list[Row], tuple[str, int], int]] = []

    def publish_batch(self, rows: list[Row], stream: tuple[str, int], last: int) -> list[Row]:
        self.batches.append((rows, stream, last))
        return rows[1:]

    def in_time(self, rows: list[Row], stream: tuple[str, int]) -> list[Row]:
        assert stream == HEADER.stream
        return rows[:-1]


class Sensors:
    """Readings that hear what came by other gateways."""

    def __init__(self, *, is_listening: bool) -> None:
        self.is_listening = is_listening
        self.heard: list[tuple[list[Row], str]] = []

    def hear(self, rows: list[Row], voice: OriginRights) -> None:
        assert voice.rules is EVERYBODY
        self.heard.append((rows, voice.origin))


EVERYBODY = OriginRules(None)


def local(core: Deliveries, readings: Sensors) -> LocalReaders:
    return LocalReaders(cast(DataPlane, core), cast(Readings, readings), EVERYBODY)


@pytest.mark.parametrize(("flags", "last"), [(Flags.LOGGED, 12), (Flags.CONTROL, 0)])
def test_clients_get_a_batch_with_its_last_number_if_it_was_logged(flags: int, last: int) -> None:
    core, readings = Deliveries(), Sensors(is_listening=False)
    header = Header("far", 1, 10, 3, flags, 0, 0, 0)
    rows: list[Row] = [("t", 0, b"1"), ("t", 0, b"2"), ("t", 0, b"3")]
    local(core, readings).take(rows, header)
    assert core.batches == [(rows, header.stream, last)]
    assert readings.heard == []


def test_sensors_hear_of_a_batch_what_is_new_and_in_time_in_the_name_of_its_origin() -> None:
    core, readings = Deliveries(), Sensors(is_listening=True)
    rows: list[Row] = [("t", 0, b"old"), ("t", 0, b"new"), ("t", 0, b"late")]
    local(core, readings).take(rows, HEADER)
    assert readings.heard == [([("t", 0, b"new")], "far")]


@pytest.mark.parametrize(
    ("filters", "is_listening", "reads"),
    [((), False, False), (("a",), False, True), ((), True, True), (("a", "b"), True, True)],
)
def test_a_message_of_qos_0_is_read_where_a_client_subscribes_or_a_sensor_listens(
    filters: tuple[str, ...], *, is_listening: bool, reads: bool
) -> None:
    core = Deliveries()
    core.subscriptions = filters
    assert local(core, Sensors(is_listening=is_listening)).reads_unlogged() is reads
