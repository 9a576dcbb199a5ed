"""Peers that come from another port, as after a NAT has forgotten them (RFC 9146, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dtls.association import PeerAssociation
from dtls.context import ClientContext
from dtls.events import Closed, Established, Moved, Received
from dtls.moved_peers import ALL_TRIES_PER_S, HOST_TRIES_PER_S, TRIES, MovedPeers
from dtls.records import APPLICATION_DATA, HANDSHAKE, DtlsRecord
from dtls.session import DtlsSession
from tests.held_objects import held_objects

MakeNet = Callable[..., Any]
HOME = ("192.0.2.1", 40_000)
ELSEWHERE = ("192.0.2.1", 50_000)
FAR = ("198.51.100.7", 50_000)
KEY = b"0123456789abcdef"


def connected(n: Any, address: object = HOME, identity: str = "meter-1") -> tuple[DtlsSession, int]:
    """A client with a session, and the number of that."""
    key = KEY if identity == "meter-1" else KEY[::-1]
    _, client = n.client(identity, key, address)
    n.roundtrip()
    established = next(event for event in n.taken() if isinstance(event, Established))
    return client, established.session_id


def record_of(client: DtlsSession, plaintext: bytes) -> bytes:
    client.send(plaintext)
    (datagram,) = client.datagrams_to_send()
    return datagram


def come(n: Any, datagram: bytes, address: object) -> list[Any]:
    """Let a datagram come from an address; the events."""
    n.endpoint.receive_datagram(datagram, address, n.now)
    found: list[Any] = n.endpoint.events()
    return found


def test_a_peer_whose_port_changed_is_heard_at_once_and_answered_there(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    moved, received = come(n, record_of(client, b"hello"), ELSEWHERE)
    assert (moved, received) == (Moved(number, ELSEWHERE), Received(number, b"hello"))
    n.endpoint.send(number, b"answer")
    ((answer, where),) = n.endpoint.datagrams_to_send()
    assert where == ELSEWHERE
    client.receive_datagram(answer, n.now)
    assert client.received() == [b"answer"]
    assert come(n, record_of(client, b"again"), ELSEWHERE) == [Received(number, b"again")]
    counters = n.endpoint.counters
    assert (counters.moved, counters.handshakes, n.endpoint.established) == (1, 1, 1)


def test_a_copy_of_a_record_moves_nobody(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    datagram = record_of(client, b"hello")
    assert come(n, datagram, HOME) == [Received(number, b"hello")]
    assert come(n, datagram, ELSEWHERE) == []
    assert n.endpoint.counters.stray == 1
    n.endpoint.send(number, b"x")
    assert [where for _, where in n.endpoint.datagrams_to_send()] == [HOME]


def test_a_late_record_of_the_port_before_moves_nobody_back(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    late, newer = record_of(client, b"late"), record_of(client, b"newer")
    assert come(n, newer, ELSEWHERE)[0] == Moved(number, ELSEWHERE)
    assert come(n, late, HOME) == []
    n.endpoint.send(number, b"x")
    assert [where for _, where in n.endpoint.datagrams_to_send()] == [ELSEWHERE]


def test_a_late_record_behind_a_forged_number_moves_nobody(net: MakeNet) -> None:
    """The number of a record that can't be decrypted is nobody's word."""
    n = net()
    client, number = connected(n)
    late, newer = record_of(client, b"late"), record_of(client, b"newer")
    assert come(n, newer, HOME) == [Received(number, b"newer")]
    forged = newer[:5] + b"\xff" * 6 + newer[11:]
    assert come(n, forged + late, ELSEWHERE) == []
    n.endpoint.send(number, b"x")
    assert [where for _, where in n.endpoint.datagrams_to_send()] == [HOME]


def test_a_forged_number_keeps_nobody_from_moving(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    first = record_of(client, b"first")
    forged = first[:5] + b"\xff" * 6 + first[11:]
    assert come(n, forged + first, HOME) == [Received(number, b"first")]
    assert come(n, record_of(client, b"next"), ELSEWHERE)[0] == Moved(number, ELSEWHERE)


def test_nobody_moves_to_another_host(net: MakeNet) -> None:
    n = net()
    client, _ = connected(n)
    assert come(n, record_of(client, b"hello"), FAR) == []
    assert n.endpoint.counters.stray == 1


def test_a_forged_or_changed_record_moves_nobody_and_ends_nothing(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    datagram = record_of(client, b"hello")
    for at in range(11, len(datagram)):
        changed = bytearray(datagram)
        changed[at] ^= 0x40
        assert come(n, bytes(changed), ELSEWHERE) == []
    assert come(n, datagram, HOME) == [Received(number, b"hello")]


def test_two_peers_that_have_each_other_s_port_now_both_go_on(net: MakeNet) -> None:
    n = net()
    first, number = connected(n)
    second, other = connected(n, ELSEWHERE, "meter-2")
    assert come(n, record_of(first, b"1"), ELSEWHERE)[-1] == Received(number, b"1")
    assert come(n, record_of(second, b"2"), HOME)[-1] == Received(other, b"2")
    for session_id in (number, other):
        n.endpoint.send(session_id, b"answer")
    assert [where for _, where in n.endpoint.datagrams_to_send()] == [ELSEWHERE, HOME]
    assert n.endpoint.established == 2
    n.endpoint.end(number, "no longer allowed")
    n.endpoint.end(other, "no longer allowed")
    assert n.endpoint.established == 0


def test_a_peer_that_moved_is_known_where_it_is_and_ends_there(net: MakeNet) -> None:
    n = net()
    client, number = connected(n)
    come(n, record_of(client, b"hello"), ELSEWHERE)
    client.close("enough")
    (goodbye,) = client.datagrams_to_send()
    assert [type(event) for event in come(n, goodbye, ELSEWHERE)] == [Closed]
    assert n.endpoint.established == 0
    assert number > 0


def test_a_new_handshake_of_a_peer_that_moved_takes_its_place(net: MakeNet) -> None:
    n = net()
    client, _ = connected(n)
    come(n, record_of(client, b"hello"), ELSEWHERE)
    again, number = connected(n, ELSEWHERE)
    assert come(n, record_of(again, b"anew"), ELSEWHERE) == [Received(number, b"anew")]
    assert n.endpoint.established == 1


class Sessions:
    """Many associations of some hosts, whose session no test uses."""

    def __init__(self, *hosts: str, of_each: int) -> None:
        self.moved = MovedPeers()
        self.all: list[PeerAssociation] = []
        session = DtlsSession(ClientContext("meter-1", KEY))
        for host in hosts:
            for _ in range(of_each):
                number = len(self.all) + 1
                one = PeerAssociation(number, (host, number), host, b"", session, 0.0)
                one.sequence = 10 * number
                self.all.append(one)
                self.moved.add(one)

    def tried(self, host: str, sequence: int = 1_000_000, now: float = 0.0) -> list[int]:
        record = DtlsRecord(APPLICATION_DATA, 1, 0, 50)
        return [one.id for one in self.moved.candidates(record, sequence, host, now)]


def test_those_whose_next_number_is_nearest_are_tried_first() -> None:
    sessions = Sessions("a", of_each=200)
    assert sessions.tried("a", 505) == list(range(50, 0, -1))
    assert len(sessions.tried("a", 1_999)) == TRIES


def test_a_session_whose_last_number_a_record_has_is_not_tried() -> None:
    sessions = Sessions("a", of_each=3)
    assert sessions.tried("a", 20) == [1]
    assert sessions.tried("a", 21) == [2, 1]


def test_a_host_has_tries_of_two_seconds_at_once_and_one_more_each_hundredth_of_a_second() -> None:
    sessions = Sessions("a", of_each=1)

    def tries_left(now: float) -> int:
        return sum(len(sessions.tried("a", now=now)) for _ in range(1_000))

    assert tries_left(now=0.0) == 2 * HOST_TRIES_PER_S
    assert tries_left(now=0.0078125) == 0
    assert tries_left(now=0.015625) == 1
    assert tries_left(now=1.015625) == HOST_TRIES_PER_S
    assert tries_left(now=99.0) == 2 * HOST_TRIES_PER_S
    assert tries_left(now=98.0) == 0, "a clock that goes back gives none"
    assert tries_left(now=98.015625) == 1, "nor does it take some"


def test_records_forged_in_the_name_of_a_host_cost_it_its_own_tries_and_no_more() -> None:
    sessions = Sessions("a", "b", of_each=100)
    tries = sum(len(sessions.tried("a", now=n / 1_000)) for n in range(10_000))
    assert tries <= HOST_TRIES_PER_S * 12
    assert len(sessions.tried("b", now=10.0)) == TRIES


def test_records_forged_in_the_name_of_all_hosts_cost_so_many_tries_in_all() -> None:
    hosts = [f"h{n}" for n in range(100)]
    sessions = Sessions(*hosts, of_each=64)
    tries = sum(len(sessions.tried(host)) for host in hosts for _ in range(10))
    assert tries <= ALL_TRIES_PER_S * 2


@pytest.mark.parametrize(("kind", "epoch"), [(HANDSHAKE, 1), (APPLICATION_DATA, 0)])
def test_what_is_no_message_of_a_session_is_tried_with_none(kind: int, epoch: int) -> None:
    sessions = Sessions("a", of_each=3)
    record = DtlsRecord(kind, epoch, 0, 50)
    assert not list(sessions.moved.candidates(record, 99, "a", 0.0))


def test_nothing_is_left_of_a_host_without_sessions() -> None:
    sessions = Sessions("a", of_each=3)
    for one in sessions.all:
        sessions.moved.remove(one)
    assert held_objects(sessions.moved) == held_objects(MovedPeers())
