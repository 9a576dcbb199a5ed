"""Goal: one port serves many peers, and no stranger can exhaust it.

Method: an endpoint and client sessions, joined without a network; time is a number.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtls.context import ClientContext, ServerContext
from dtls.endpoint import DOUBT_S, YOUNG_S, Endpoint
from dtls.endpoint_limits import EndpointLimits
from dtls.errors import SessionClosedError
from dtls.events import Closed, Established, Failed, Received
from dtls.session import DtlsSession, SessionState
from tests.unit.dtls.conftest import Net

MakeNet = Callable[..., Any]
KEY = b"0123456789abcdef"


def first_hello() -> bytes:
    client = DtlsSession(ClientContext("meter-1", KEY))
    client.start(0.0)
    (hello,) = client.datagrams_to_send()
    return hello


def test_a_peer_is_established_by_name_and_heard(net: MakeNet) -> None:
    n = net()
    address, client = n.client()
    n.roundtrip()
    client.send(b"hello")
    n.roundtrip()
    established, received = n.taken()
    assert isinstance(established, Established)
    assert (established.address, established.identity.name) == (address, "meter-1")
    assert received == Received(established.session_id, b"hello")
    n.endpoint.send(established.session_id, b"answer")
    n.roundtrip()
    assert client.received() == [b"answer"]
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 1)


def test_two_peers_are_not_mixed_up(net: MakeNet) -> None:
    n = net()
    n.client("meter-1", KEY)
    n.client("meter-2", KEY[::-1])
    n.roundtrip()
    one, two = n.taken()
    first, second = n.clients.values()
    second.send(b"from two")
    first.send(b"from one")
    n.roundtrip()
    assert {(e.session_id, e.plaintext) for e in n.taken()} == {
        (one.session_id, b"from one"),
        (two.session_id, b"from two"),
    }
    assert {one.identity.name, two.identity.name} == {"meter-1", "meter-2"}


def test_a_flood_of_hellos_without_cookie_costs_no_session_and_no_memory(net: MakeNet) -> None:
    n = net()
    hello = first_hello()

    def flood(count: int, start: int) -> None:
        for port in range(start, start + count):
            n.endpoint.receive_datagram(hello, ("198.51.100.7", port), n.now)
            (reply,) = n.endpoint.datagrams_to_send()
            assert len(reply[0]) < len(hello)  # no use for an attack on a third party

    def traced_bytes() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    flood(1_000, 0)  # what is made once, such as the library's own tables, is there after it
    before_bytes = traced_bytes()
    flood(5_000, 1_000)
    grown_bytes = traced_bytes() - before_bytes
    tracemalloc.stop()
    # 13 bytes a hello: nothing is kept of any, though other threads of the run allocate, too.
    assert grown_bytes < 64 * 1024
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 0)
    assert n.endpoint.counters.cookies_sent == 6_000


def test_a_cookie_counts_only_at_the_address_it_was_sent_to(net: MakeNet) -> None:
    n = net()
    address, client = n.client()
    n.step()
    (with_cookie,) = client.datagrams_to_send()
    n.endpoint.receive_datagram(with_cookie, ("203.0.113.9", 1), n.now)
    assert n.endpoint.half_open == 0
    assert n.endpoint.counters.cookies_refused == 1
    n.endpoint.receive_datagram(with_cookie, address, n.now)
    assert n.endpoint.half_open == 1


def test_a_cookie_that_waited_too_long_is_replaced_by_a_new_one(net: MakeNet) -> None:
    n = net()
    address, client = n.client()
    n.step()
    (with_cookie,) = client.datagrams_to_send()
    n.now += 1_000.0
    n.endpoint.receive_datagram(with_cookie, address, n.now)
    assert n.endpoint.half_open == 0
    assert n.endpoint.counters.cookies_sent == 2


def test_a_wrong_key_gives_no_session_and_the_handshake_is_given_up(net: MakeNet) -> None:
    n = net(EndpointLimits(handshake_s=30.0))
    n.client(key=b"fedcba9876543210")
    n.roundtrip()
    assert (n.endpoint.half_open, n.endpoint.established) == (1, 0)
    n.now += 30.0
    assert n.endpoint.next_timer() <= n.now
    n.endpoint.handle_timer(n.now)
    assert n.endpoint.half_open == 0
    assert n.endpoint.counters.handshakes_failed == 1
    assert n.taken() == []


def test_an_unknown_identity_is_told_so_and_leaves_nothing(net: MakeNet) -> None:
    n = net()
    _, client = n.client("stranger")
    n.roundtrip()
    assert "unknown psk identity" in client.reason
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 0)
    assert n.endpoint.counters.handshakes_failed == 1


def test_beyond_the_limit_of_handshakes_the_oldest_is_given_up(net: MakeNet) -> None:
    n = net(EndpointLimits(half_open=3))
    stuck = [n.client() for _ in range(5)]
    for address, client in stuck:  # each returns its cookie and then says no more
        n.endpoint.receive_datagram(client.datagrams_to_send()[0], address, n.now)
        ((verify, _),) = n.endpoint.datagrams_to_send()
        client.receive_datagram(verify, n.now)
        n.endpoint.receive_datagram(client.datagrams_to_send()[0], address, n.now)
        n.endpoint.datagrams_to_send()
    assert n.endpoint.half_open == 3
    assert n.endpoint.counters.half_open_evicted == 2
    n.clients.clear()
    n.client()
    n.roundtrip()
    assert n.endpoint.established == 1


def half_open(n: Any, host: str, count: int, first_port: int = 1) -> None:
    """Clients that return their cookie and then say no more."""
    for port in range(first_port, first_port + count):
        address, client = n.client(address=(host, port))
        n.endpoint.receive_datagram(client.datagrams_to_send()[0], address, n.now)
        ((verify, _),) = n.endpoint.datagrams_to_send()
        client.receive_datagram(verify, n.now)
        n.endpoint.receive_datagram(client.datagrams_to_send()[0], address, n.now)
        n.endpoint.datagrams_to_send()
        del n.clients[address]


def gave_way(n: Any) -> list[str]:
    """The hosts of the handshakes that were given up since the last call, in order."""
    return [event.address[0] for event in n.endpoint.events() if isinstance(event, Failed)]


def test_a_host_has_its_part_of_handshakes_and_others_come_through(net: MakeNet) -> None:
    n = net(EndpointLimits(half_open=6, half_open_of_host=4))
    half_open(n, "203.0.113.1", 9)
    assert (n.endpoint.half_open, n.endpoint.counters.half_open_refused) == (4, 5)
    n.client(address=("192.0.2.1", 1))
    n.roundtrip()
    assert n.endpoint.established == 1
    n.now += YOUNG_S
    half_open(n, "203.0.113.1", 1, first_port=100)  # the oldest of its own gives way
    assert (n.endpoint.half_open, n.endpoint.counters.half_open_evicted) == (4, 1)


def test_a_full_table_gives_up_one_of_the_host_that_has_the_most(net: MakeNet) -> None:
    n = net(EndpointLimits(half_open=6, half_open_of_host=4))
    half_open(n, "203.0.113.1", 4)
    half_open(n, "203.0.113.2", 2)
    half_open(n, "203.0.113.3", 2)
    assert (n.endpoint.half_open, n.endpoint.counters.half_open_refused) == (6, 0)
    assert gave_way(n) == ["203.0.113.1"] * 2


def test_many_that_begin_at_once_behind_one_address_all_come_through_in_the_end(
    net: MakeNet,
) -> None:
    n = net(EndpointLimits(half_open=6, half_open_of_host=4))
    there: set[object] = set()
    for _ in range(3):
        for port in range(12):
            if ("203.0.113.1", port) not in there:
                n.client(address=("203.0.113.1", port))  # once more, as it would by its timer
        n.roundtrip()
        there |= {event.address for event in n.taken() if isinstance(event, Established)}
    assert len(there) == n.endpoint.established == 12


def test_beyond_the_limit_of_sessions_the_one_silent_longest_is_closed(net: MakeNet) -> None:
    n = net(EndpointLimits(established=2))
    (_, first), (_, second) = n.client(), n.client()
    n.roundtrip()
    n.now += 1.0
    first.send(b"still here")
    n.roundtrip()
    n.client()
    n.roundtrip()
    assert n.endpoint.established == 2
    assert first.state is SessionState.ESTABLISHED
    assert second.state is SessionState.CLOSED
    assert n.endpoint.counters.established_evicted == 1


def test_a_session_that_is_silent_too_long_is_closed_on_both_sides(net: MakeNet) -> None:
    n = net(EndpointLimits(idle_s=600.0))
    _, client = n.client()
    n.roundtrip()
    session_id = n.taken()[0].session_id
    n.now += 599.0
    client.send(b"alive")
    n.roundtrip()
    n.now += 599.0
    n.endpoint.handle_timer(n.now)
    assert n.endpoint.established == 1
    n.now = n.endpoint.next_timer()
    n.endpoint.handle_timer(n.now)
    n.roundtrip()
    assert client.state is SessionState.CLOSED
    assert n.taken()[-1] == Closed(session_id, "idle")
    with pytest.raises(SessionClosedError):
        n.endpoint.send(session_id, b"too late")


def test_a_device_that_reboots_is_served_again_at_the_same_port(net: MakeNet) -> None:
    n = net()
    address, _ = n.client()
    n.roundtrip()
    (before,) = n.taken()
    _, rebooted = n.client(address=address)
    n.roundtrip()
    rebooted.send(b"back again")
    n.roundtrip()
    gone, after, received = n.taken()
    assert gone == Closed(before.session_id, "the peer began anew")
    assert received == Received(after.session_id, b"back again")
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 1)


def test_a_device_that_reboots_during_the_handshake_is_served(net: MakeNet) -> None:
    n = net()
    address, _ = n.client()
    n.step()
    n.step()
    assert n.endpoint.half_open == 1
    _, rebooted = n.client(address=address)
    n.roundtrip()
    assert rebooted.state is SessionState.ESTABLISHED
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 1)


def test_a_handshake_from_a_known_address_ends_no_session_before_it_is_complete(
    net: MakeNet,
) -> None:
    n = net()
    address, client = n.client()
    n.roundtrip()
    (before,) = n.taken()
    n.client(key=b"fedcba9876543210", address=address)
    n.roundtrip()
    assert (n.endpoint.half_open, n.endpoint.established) == (1, 1)
    n.clients[address] = client
    client.send(b"still the one")
    n.roundtrip()
    assert n.taken() == [Received(before.session_id, b"still the one")]


def test_a_hello_that_was_delayed_until_after_the_handshake_is_ignored(net: MakeNet) -> None:
    n = net()
    seen: list[bytes] = []
    n.lose = lambda data, _address, to_server: bool(to_server and seen.append(data))
    address, client = n.client()
    n.roundtrip()
    n.endpoint.receive_datagram(seen[1], address, n.now)
    assert n.endpoint.half_open == 0
    client.send(b"as before")
    n.roundtrip()
    assert n.taken()[-1].plaintext == b"as before"


def test_every_datagram_twice_makes_one_session_each(
    net: MakeNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = net()
    deliver = n.endpoint.receive_datagram

    def twice(data: bytes, address: object, now: float) -> None:
        deliver(data, address, now)
        deliver(data, address, now)

    monkeypatch.setattr(n.endpoint, "receive_datagram", twice)
    _, client = n.client()
    n.roundtrip()
    client.send(b"once")
    n.roundtrip()
    established, received = n.taken()
    assert received == Received(established.session_id, b"once")
    assert n.endpoint.counters.handshakes == 1


def test_the_handshake_survives_the_loss_of_any_of_its_datagrams(net: MakeNet) -> None:
    """One client for each loss, all in the same second: OpenSSL's timer can't be moved."""
    n = net()
    losses = {}
    for to_server in (True, False):
        for number in (1, 2, 3):
            n.now = time.monotonic()
            address, _ = n.client()
            losses[address, to_server] = number
    n.lose = lambda _data, address, to_server: _count_down(losses, (address, to_server))
    for _ in range(10):
        n.roundtrip()
        timers = [n.endpoint, *n.clients.values()]
        due = [at for c in n.clients.values() if (at := c.next_timer()) is not None]
        if not due:
            break
        time.sleep(max(0.0, min(due) - time.monotonic()))
        n.now = time.monotonic()
        for timer in timers:
            timer.handle_timer(n.now)
    assert all(c.state is SessionState.ESTABLISHED for c in n.clients.values())
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 6)


def _count_down(losses: dict[Any, int], key: Any) -> bool:
    losses[key] = losses.get(key, 0) - 1
    return losses[key] == 0


def test_stopping_tells_every_peer(net: MakeNet) -> None:
    n = net()
    (_, one), (_, two) = n.client(), n.client()
    n.roundtrip()
    n.endpoint.close()
    n.roundtrip()
    assert one.state is two.state is SessionState.CLOSED
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 0)
    assert n.endpoint.next_timer() is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(datagrams=st.lists(st.binary(max_size=200), max_size=20))
def test_no_datagram_of_a_stranger_makes_a_session_or_an_error(
    net: MakeNet, datagrams: list[bytes]
) -> None:
    n = net()
    for datagram in datagrams:
        n.endpoint.receive_datagram(datagram, ("198.51.100.7", 1), n.now)
    assert (n.endpoint.half_open, n.endpoint.established, n.endpoint.events()) == (0, 0, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.data())
def test_a_damaged_hello_makes_no_error(net: MakeNet, data: st.DataObject) -> None:
    n = net()
    hello = bytearray(first_hello())
    for _ in range(data.draw(st.integers(1, 4))):
        hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    n.endpoint.receive_datagram(bytes(hello), ("198.51.100.7", 1), n.now)
    assert n.endpoint.half_open == 0


# -- handshakes that come to nothing, and what others send into them ------------------------------


def begun(n: Any, *, key: bytes = KEY) -> tuple[object, DtlsSession]:
    """A client whose cookie is taken and who has the server's first flight, and waits."""
    address, client = n.client(key=key)
    for _ in range(2):
        for datagram in client.datagrams_to_send():
            n.endpoint.receive_datagram(datagram, address, n.now)
        for datagram, _ in n.endpoint.datagrams_to_send():
            client.receive_datagram(datagram, n.now)
    assert n.endpoint.half_open == 1
    return address, client


def alert(description: int, level: int = 2) -> bytes:
    return b"\x15\xfe\xfd\0\0\0\0\0\0\0\x09\0\x02" + bytes((level, description))


def test_a_handshake_that_fails_is_told_with_where_and_why(net: MakeNet) -> None:
    n = net()
    address, _ = n.client("stranger")
    n.roundtrip()
    assert n.taken() == [Failed(address, "unknown psk identity 'stranger'")]


def test_a_wrong_key_is_told_as_such_when_its_time_is_over(net: MakeNet) -> None:
    n = net()
    address, _ = n.client(key=KEY[::-1])
    n.roundtrip()
    n.now += 30.0
    n.endpoint.handle_timer(n.now)
    n.step()
    (failed,) = n.taken()
    assert failed.address == address
    assert failed.reason == "another key than that of psk identity 'meter-1', or silence"


def test_alerts_that_anybody_may_have_sent_end_no_handshake_and_no_session(net: MakeNet) -> None:
    n = net()
    address, client = begun(n)
    noise = b"\x16\xfe\xfd\0\0\0\0\0\0\0\x08\0\x01\x14"
    for forged in (alert(40), alert(0, 1), alert(80) + alert(48), alert(90)):
        n.endpoint.receive_datagram(forged, address, n.now)
    assert n.endpoint.half_open == 1
    n.roundtrip()
    assert n.endpoint.established == 1
    n.endpoint.receive_datagram(alert(40) + noise, address, n.now)
    client.send(b"here still")
    n.roundtrip()
    established, received = n.taken()
    assert received == Received(established.session_id, b"here still")


def test_a_handshake_that_does_not_go_on_after_an_alert_is_soon_over(net: MakeNet) -> None:
    n = net()
    address, _ = begun(n)
    n.endpoint.receive_datagram(alert(48), address, n.now)
    n.now += DOUBT_S
    assert n.endpoint.next_timer() <= n.now
    n.endpoint.handle_timer(n.now)
    assert n.endpoint.half_open == 0
    n.step()
    assert n.taken() == [Failed(address, "alert of the peer: unknown ca")]


def test_a_handshake_that_goes_on_after_an_alert_has_all_its_time(net: MakeNet) -> None:
    n = net()
    address, client = begun(n, key=KEY[::-1])
    n.endpoint.receive_datagram(alert(48), address, n.now)
    for datagram in client.datagrams_to_send():
        n.endpoint.receive_datagram(datagram, address, n.now)
    n.now += 2 * DOUBT_S
    n.endpoint.handle_timer(n.now)
    assert n.endpoint.half_open == 1


def test_with_other_keys_sessions_stay_and_handshakes_under_way_begin_anew(net: MakeNet) -> None:
    n = net()
    n.client()
    n.roundtrip()
    _, staying = next(iter(n.clients.items()))
    address, _ = begun(n)
    n.taken()
    n.endpoint.follow(ServerContext({b"meter-3": KEY}.get))
    assert (n.endpoint.half_open, n.endpoint.established) == (0, 1)
    n.clients.pop(address)
    staying.send(b"here still")
    n.client("meter-3")
    n.client("meter-1")
    n.roundtrip()
    told = n.taken()
    assert told[0] == Failed(address, "the keys have changed meanwhile")
    assert [e.plaintext for e in told if isinstance(e, Received)] == [b"here still"]
    assert [e.identity.name for e in told if isinstance(e, Established)] == ["meter-3"]
    assert [e.reason for e in told[1:] if isinstance(e, Failed)] == [
        "unknown psk identity 'meter-1'"
    ]


def test_in_a_full_table_a_host_that_has_come_in_before_gives_way_last(net: MakeNet) -> None:
    n = net(EndpointLimits(half_open=6, half_open_of_host=4))
    n.client(address=("192.0.2.1", 1))
    n.roundtrip()
    half_open(n, "192.0.2.1", 2, first_port=2)  # the most, and the oldest
    for number in range(9):
        n.now += 0.1
        half_open(n, f"203.0.113.{number}", 1)
    assert (n.endpoint.half_open, n.endpoint.counters.half_open_refused) == (6, 0)
    assert gave_way(n) == [f"203.0.113.{number}" for number in range(5)]


def test_the_alert_for_who_had_to_give_way_ends_its_handshake(net: MakeNet) -> None:
    n = net()
    _, client = begun(n)
    n.endpoint.follow(ServerContext({b"meter-1": KEY}.get))
    ((told, _),) = n.endpoint.datagrams_to_send()
    client.receive_datagram(told, n.now)
    assert client.state is SessionState.CLOSED
    assert "internal error" in client.reason


def test_each_address_has_a_part_of_its_own_where_nobody_says_what_a_host_is() -> None:
    limits = EndpointLimits(half_open=8, half_open_of_host=1)
    net = Net(Endpoint(ServerContext({b"meter-1": KEY}.get), random.Random(1).randbytes, limits))
    for port in (1, 2, 3):
        _, client = net.client(address=("192.0.2.1", port))
        net.step()
        (with_cookie,) = client.datagrams_to_send()
        net.endpoint.receive_datagram(with_cookie, ("192.0.2.1", port), net.now)
    assert net.endpoint.half_open + net.endpoint.established == 3
    assert net.endpoint.counters.half_open_refused == 0
    assert net.endpoint.counters.half_open_evicted == 0
