"""A collector acknowledges a message to a plain broker after it has stored the message."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.collector.broker_session import (
    BrokerMessage,
    BrokerSession,
    BrokerSessionError,
    SessionSettings,
)
from cloud_ingest.collector.numbering import BatchNumbering
from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PropertyId,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler import batch

SETTINGS = SessionSettings("collector", ["#"], receive_maximum=4)


def packets(data: bytes, version: int = Version.V5) -> list[Packet]:
    found = []
    while data:
        where = packet_end(data, 0, 1 << 24)
        assert where is not None
        found.append(decode(data[0], data[where[0] : where[1]], version))
        data = data[where[1] :]
    return found


def connect(session: BrokerSession, *, present: bool, version: int = Version.V5) -> list[Packet]:
    """Begin a connection; what the broker was sent behind its CONNACK."""
    session.connect()
    answer, _ = session.feed(encode(ConnAck(present), version))
    if answer:
        session.feed(encode(SubAck(1, [1]), version))
    assert session.is_subscribed
    return packets(answer, version)


def begun(settings: SessionSettings = SETTINGS) -> BrokerSession:
    session = BrokerSession(settings)
    connect(session, present=False, version=settings.version)
    return session


def send(session: BrokerSession, packet_id: int, payload: bytes, *, dup: bool = False) -> tuple:
    publish = Publish("a/b", payload, 1, False, dup, packet_id)
    answer, found = session.feed(encode(publish, Version.V5))
    return packets(answer), found


def test_the_session_is_durable_and_its_window_is_told() -> None:
    (said,) = packets(BrokerSession(SETTINGS).connect("me", b"secret"))
    assert isinstance(said, Connect)
    assert (said.clean_start, said.username, said.password) == (False, "me", b"secret")
    assert said.properties[PropertyId.RECEIVE_MAXIMUM] == 4
    assert said.properties[PropertyId.SESSION_EXPIRY_INTERVAL] == SETTINGS.session_expiry_s


def test_subscriptions_are_made_anew_without_what_is_retained() -> None:
    session = begun()
    (asked,) = connect(session, present=True)
    assert isinstance(asked, Subscribe)
    assert [(one.qos, one.retain_handling) for one in asked.requests] == [(1, 1)]


def test_a_311_session_that_is_there_is_not_subscribed_again() -> None:
    settings = SessionSettings("collector", ["#"], Version.V311)
    assert connect(begun(settings), present=True, version=Version.V311) == []


def test_nothing_is_acknowledged_before_it_is_stored() -> None:
    session = begun()
    answer, found = send(session, 7, b"x")
    assert answer == []
    assert packets(session.stored(found)) == [PubAck(7)]


def test_what_was_stored_and_never_acknowledged_is_known_again() -> None:
    session = begun()
    _, found = send(session, 7, b"x")
    connect(session, present=True)
    assert session.stored(found) == b""  # on this connection nobody has sent it yet
    assert send(session, 7, b"x", dup=True) == ([PubAck(7)], [])
    assert session.known_again == 1


def test_what_comes_again_while_it_is_being_stored_is_acknowledged_once_it_is() -> None:
    session = begun()
    _, found = send(session, 7, b"x")
    connect(session, present=True)
    assert send(session, 7, b"x", dup=True) == ([], [])
    assert packets(session.stored(found)) == [PubAck(7)]


@pytest.mark.parametrize(("payload", "dup"), [(b"other", True), (b"x", False)])
def test_another_message_under_the_same_identifier_is_stored(payload: bytes, dup: bool) -> None:
    session = begun()
    _, found = send(session, 7, b"x")
    connect(session, present=True)
    session.stored(found)
    _, again = send(session, 7, payload, dup=dup)
    assert [one.row[2] for one in again] == [payload]


def test_an_identifier_that_was_acknowledged_may_be_another_message_and_is_stored() -> None:
    session = begun()
    _, found = send(session, 7, b"21.5")
    session.stored(found)
    connect(session, present=True)
    _, again = send(session, 7, b"21.5", dup=True)
    assert len(again) == 1


def test_identifiers_of_a_session_that_the_broker_lost_mean_nothing() -> None:
    session = begun()
    _, found = send(session, 7, b"x")
    connect(session, present=False)
    _, again = send(session, 7, b"x", dup=True)
    assert len(again) == 1
    assert session.stored(found) == b""
    assert packets(session.stored(again)) == [PubAck(7)]


def test_what_could_not_be_synced_is_taken_as_new_when_it_comes_again() -> None:
    session = begun()
    _, found = send(session, 7, b"x")
    session.lost(found)
    connect(session, present=True)
    _, again = send(session, 7, b"x", dup=True)
    assert len(again) == 1
    assert packets(session.stored(again)) == [PubAck(7)]


def test_it_is_full_at_its_window_until_something_is_stored() -> None:
    session = begun()
    found = [one for number in range(1, 5) for one in send(session, number, b"x")[1]]
    assert session.is_full
    session.stored(found[:1])
    assert not session.is_full


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (Disconnect(0x8E), "taken over"),
        (Publish("a", b"", 2, False, False, 1), "QoS 2"),
        (SubAck(1, [0x87]), "'#'"),
        (SubAck(1, [0]), "granted QoS 0"),
    ],
)
def test_what_a_broker_refuses_is_told(packet: Packet, why: str) -> None:
    session = begun()
    with pytest.raises(BrokerSessionError, match=f"(?i){why}"):
        session.feed(encode(packet, Version.V5))


@given(st.binary(max_size=200))
def test_whatever_comes_the_only_error_is_ours(data: bytes) -> None:
    session = begun()
    try:
        session.feed(data)
    except BrokerSessionError:
        assert session.held == 0


class Broker:
    """A broker's side of one session: what is not acknowledged comes again [MQTT-4.4.0-1]."""

    def __init__(self) -> None:
        self.queue: deque[bytes] = deque()
        self.in_flight: dict[int, bytes] = {}
        self._accepted = 0

    def publish(self) -> None:
        self._accepted += 1
        self.queue.append(b"%d" % self._accepted)

    @property
    def accepted(self) -> int:
        return self._accepted

    def fresh(self) -> list[Publish]:
        found = []
        while self.queue and len(self.in_flight) < 4:
            number = next(one for one in range(1, 9) if one not in self.in_flight)
            self.in_flight[number] = self.queue.popleft()
            found.append(Publish("t", self.in_flight[number], 1, False, False, number))
        return found

    def again(self) -> list[Publish]:
        return [Publish("t", one, 1, False, True, number) for number, one in self.in_flight.items()]


STEP = st.sampled_from(["publish", "deliver", "store", "acks", "lose", "kill"])


@given(st.lists(STEP, max_size=60))
def test_whatever_breaks_all_is_stored_and_what_is_twice_was_in_an_answer_that_got_lost(
    steps: list[str],
) -> None:
    """A kill forgets all but the store; a connection that breaks loses what is on its way."""
    broker, session, store = Broker(), begun(), []
    waiting: list[BrokerMessage] = []
    answers = b""
    may_be_twice = 0
    for step in [*steps, "lose", "deliver", *["store", "acks", "deliver"] * 20]:
        if step == "publish":
            broker.publish()
        elif step == "deliver":
            for publish in broker.fresh():
                answer, found = session.feed(encode(publish, Version.V5))
                answers += answer
                waiting += found
        elif step == "store":
            store += [one.row[2] for one in waiting]
            answers += session.stored(waiting)
            waiting = []
        elif step == "acks":
            for packet in packets(answers):
                assert isinstance(packet, PubAck)
                assert broker.in_flight.pop(packet.packet_id) in store
            answers = b""
        else:
            if step == "kill":
                may_be_twice += sum(one in store for one in broker.in_flight.values())
                session, waiting = BrokerSession(SETTINGS), []
            else:
                may_be_twice += len(packets(answers))
            answers = b""
            connect(session, present=True)
            for publish in broker.again():
                answer, found = session.feed(encode(publish, Version.V5))
                answers += answer
                waiting += found
    assert set(store) == {b"%d" % number for number in range(1, broker.accepted + 1)}
    assert len(store) - broker.accepted <= may_be_twice


@given(
    st.lists(st.sampled_from([0, 10, 100_000]), min_size=1, max_size=12),
    st.lists(st.booleans(), max_size=20),
)
def test_numbers_have_no_gaps_though_the_spool_refuses_some_batches(
    sizes: list[int], refusals: list[bool]
) -> None:
    numbering = BatchNumbering("collector", 5)
    left = [("t", 1, bytes(size)) for size in sizes]
    expected = 1
    while left:
        frame, header = numbering.make(left, 1)
        assert batch.check(frame) == header
        assert (header.stream, header.first, header.logged) == (("collector", 5), expected, True)
        if not (refusals and refusals.pop()):
            numbering.took(header)
            expected = header.last + 1
            left = left[header.count :]
    assert expected == len(sizes) + 1


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
def test_a_ping_is_the_two_bytes_of_the_standard(version: Version) -> None:
    """MQTT 3.1.1 and 5.0, section 3.12."""
    assert BrokerSession(SessionSettings("c", ["#"], version)).ping() == b"\xc0\x00"


def test_nothing_of_bytes_is_given_out_of_which_some_are_no_mqtt() -> None:
    session = begun()
    good = encode(Publish("a", b"x", 1, False, False, 7), Version.V5)
    for wrong in (b"\x00\x00", b"\x36\x00", b"\x40\x02\x00\x00"):
        with pytest.raises(BrokerSessionError, match=r"^what came is no MQTT: "):
            session.feed(good + wrong)
        assert session.held == 0
        connect(session, present=True)
    assert [one.row[2] for one in send(session, 7, b"x", dup=True)[1]] == [b"x"]


def test_a_topic_alias_that_nobody_allowed_is_refused() -> None:
    """Without a Topic Alias Maximum in CONNECT none may be sent [MQTT-3.1.2-27]."""
    publish = Publish("", b"x", 0, False, False, None, {PropertyId.TOPIC_ALIAS: 1})
    with pytest.raises(BrokerSessionError, match="a topic alias, and none was allowed"):
        begun().feed(encode(publish, Version.V5))


@pytest.mark.parametrize(
    ("username", "password"), [("u" * 65_536, None), ("u", bytes(65_536)), ("\0", None)]
)
def test_a_login_that_can_not_be_sent_is_refused(username: str, password: bytes | None) -> None:
    """A string has at most 65 535 bytes, and no null character (MQTT 5.0, section 1.5.4)."""
    with pytest.raises(BrokerSessionError):
        BrokerSession(SETTINGS).connect(username, password)


def test_a_pingresp_is_taken_and_nothing_is_answered() -> None:
    assert begun().feed(b"\xd0\x00") == (b"", [])


def test_what_the_broker_asks_for_in_place_of_what_was_offered_counts() -> None:
    session = BrokerSession(SETTINGS)
    session.connect()
    said = {PropertyId.SERVER_KEEP_ALIVE: 7, PropertyId.SESSION_EXPIRY_INTERVAL: 30}
    session.feed(encode(ConnAck(False, 0, said), Version.V5))
    assert (session.keep_alive_s, session.session_expiry_s) == (7, 30)
    session.connect()
    assert session.keep_alive_s == 60
    session.feed(encode(ConnAck(False), Version.V5))
    assert (session.keep_alive_s, session.session_expiry_s) == (60, 7 * 86_400)


def test_it_is_full_with_so_many_bytes_until_they_are_stored() -> None:
    """A message takes the bytes of its topic (3 of them) and of its payload."""
    session = BrokerSession(SessionSettings("collector", ["#"]))
    connect(session, present=False)
    large = 1 << 19
    found = [one for n in range(1, 32) for one in send(session, n, bytes(large - 3))[1]]
    found += send(session, 32, bytes(large - 4))[1]
    assert (session.held, session.is_full) == (32, False)
    found += session.feed(encode(Publish("a", b"", 0, False, False), Version.V5))[1]
    assert (session.held, session.is_full) == (33, True)
    session.stored(found[-1:])
    assert not session.is_full
    session.lost(found[:-1])
    assert session.held == 0
