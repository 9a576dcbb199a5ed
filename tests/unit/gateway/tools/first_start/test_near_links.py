"""Goal: neighbours are served, and nobody who comes through a router."""

from __future__ import annotations

import ipaddress
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.first_start import near_links, own_links
from gateway.tools.first_start.near_links import NearLinks, OwnAddress
from gateway.tools.first_start.near_listeners import ADDRESSES_MAX, NearListeners


def link(*own: str, routers: tuple[str, ...] = ()) -> NearLinks:
    return NearLinks(
        tuple(OwnAddress(ipaddress.ip_interface(one), 2) for one in own),
        frozenset(ipaddress.ip_address(one) for one in routers),
    )


HOME = link(
    *("127.0.0.1/8", "::1/128", "192.168.1.7/24", "fe80::7/64", "fd00::7/64"),
    *("2a00:1450::7/64", "8.8.8.7/24"),
    routers=("192.168.1.1", "fe80::1"),
)


@pytest.mark.parametrize(
    "host", ["192.168.1.20", "192.168.1.7", "fe80::20%eth0", "fe80::1%eth0", "fd00::20", "::1"]
)
def test_a_neighbour_is_served(host: str) -> None:
    assert HOME.why_far(host) == ""


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.168.2.20", "another network"),
        ("10.0.0.1", "another network"),
        ("2a00:1450::20", "another network"),
        ("8.8.8.8", "another network"),
        ("192.168.1.1", "a router"),
        ("::ffff:192.168.1.20", "another network"),
        ("", "no address"),
        ("neighbour", "no address"),
    ],
)
def test_who_is_none_is_told_why(host: str, why: str) -> None:
    assert why in HOME.why_far(host)


def test_no_routed_address_is_listened_on_or_kept() -> None:
    served = [str(one.address) for one in HOME.own if one.is_served]
    assert served == ["127.0.0.1", "::1", "192.168.1.7", "fe80::7", "fd00::7"]
    assert HOME.kept() == ["192.168.1.7", "fd00::7"]
    assert link("127.0.0.1/8").kept() == ["127.0.0.1"]


@given(st.ip_addresses())
def test_an_address_of_no_own_network_is_never_near(sender: near_links.IpAddress) -> None:
    near = [one.interface.network for one in HOME.own if one.is_served]
    if not any(sender in network for network in near):
        assert HOME.why_far(str(sender))


@given(st.binary(max_size=300))
def test_any_bytes_of_the_kernel_are_read_to_an_end(data: bytes) -> None:
    for _, body in near_links.messages(data):
        assert len(body) <= len(data)


def test_an_address_that_is_not_yet_ours_is_left_out() -> None:
    packed = ipaddress.ip_address("fd00::7").packed
    attribute = struct.pack("=HH", 4 + len(packed), 1) + packed
    for flags, count in ((0x80, 1), (0x40, 0), (0x08, 0), (0x01, 0)):
        body = struct.pack("=BBBBI", 10, 64, flags, 0, 2) + attribute
        assert len(near_links.own_addresses([(near_links.NEW_ADDRESS, body)])) == count


def test_a_router_of_several_ways_is_known() -> None:
    packed = ipaddress.ip_address("10.0.0.1").packed
    hop = struct.pack("=HBBi", 16, 0, 0, 2) + struct.pack("=HH", 8, 5) + packed
    many = struct.pack("=HH", 4 + 2 * len(hop), 9) + hop + hop.replace(packed, b"\n\0\0\2")
    body = bytes(12) + many
    found = near_links.routers([(near_links.NEW_ROUTE, body)])
    assert {str(one) for one in found} == {"10.0.0.1", "10.0.0.2"}


def test_the_kernel_of_this_machine_tells_its_addresses() -> None:
    assert "127.0.0.1" in {str(one.address) for one in own_links.ask().own}


def head(size: int, kind: int) -> bytes:
    """The head of a message of the kernel (netlink(7)): its length, head included, comes first."""
    return struct.pack("=IHHII", size, kind, 0, 0, 0)


def test_messages_of_the_kernel_are_split_by_their_length_to_four_bytes() -> None:
    # Bodies of 3 bytes are padded to 4.
    data = head(19, 20) + b"abc\0" + head(16, 3)
    assert list(near_links.messages(data)) == [(20, b"abc"), (3, b"")]
    # A length below that of a head would never come to an end.
    assert list(near_links.messages(head(15, 20) + data)) == []
    assert list(near_links.messages(data + bytes(15))) == [(20, b"abc"), (3, b"")]


def test_an_address_or_a_router_of_an_unknown_length_is_left_out() -> None:
    for packed, count in ((bytes(3), 0), (b"\n\0\0\1", 1), (bytes(17), 0)):
        attribute = struct.pack("=HH", 4 + len(packed), 1) + packed
        body = struct.pack("=BBBBI", 2, 24, 0, 0, 2) + attribute
        assert len(near_links.own_addresses([(near_links.NEW_ADDRESS, body)])) == count
        gateway = struct.pack("=HH", 4 + len(packed), 5) + packed
        assert len(near_links.routers([(near_links.NEW_ROUTE, bytes(12) + gateway)])) == count
    for other in (near_links.NEW_ROUTE, near_links.DONE):
        assert near_links.own_addresses([(other, body)]) == ()


def test_attributes_and_hops_that_say_less_than_their_own_head_end_the_list() -> None:
    gateway = struct.pack("=HH", 8, 5) + b"\n\0\0\1"
    short = struct.pack("=HH", 3, 5)
    assert near_links.routers([(near_links.NEW_ROUTE, bytes(12) + short + gateway)]) == frozenset()
    hop = struct.pack("=HBBi", 7, 0, 0, 2) + gateway
    many = struct.pack("=HH", 4 + len(hop), 9) + hop
    assert near_links.routers([(near_links.NEW_ROUTE, bytes(12) + many)]) == frozenset()


class ToldSocket:
    """A socket to the kernel that answers with an error."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> ToldSocket:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settimeout(self, _seconds: float) -> None:
        pass

    def bind(self, _address: object) -> None:
        pass

    def send(self, _data: bytes) -> None:
        pass

    def recv(self, _size: int) -> bytes:
        return head(20, near_links.ERROR) + bytes(4)


def test_a_kernel_that_does_not_tell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", ToldSocket)
    with pytest.raises(OSError, match=r"^the kernel does not tell its addresses$"):
        own_links.ask()


class NotedListener:
    """Listens nowhere, or is refused, and notes what it is told."""

    def __init__(self, notes: list[str], refused: set[str]) -> None:
        self._notes = notes
        self._refused = refused
        self._host = ""

    async def start(self, host: str, port: int, *, hops: int | None = None) -> int:
        if host in self._refused:
            raise OSError(98, "Address already in use")
        self._host = host
        self._notes.append(f"start {host} {port} {hops}")
        return 8443

    async def stop(self) -> None:
        self._notes.append(f"stop {self._host}")


async def test_it_listens_where_the_machine_is_now_and_tells_of_each_refusal_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes: list[str] = []
    told: list[str] = []
    refused = {"10.0.0.2"}
    listeners = NearListeners(lambda: NotedListener(notes, refused), 443, told.append)
    for _ in range(2):
        await listeners.follow(link("10.0.0.1/24", "10.0.0.2/24", "fe80::1/64", "8.8.8.8/24"))
    assert notes == ["start 10.0.0.1 443 1", "start fe80::1%2 443 1"]
    assert told == ["10.0.0.1:8443", "[fe80::1%2]:8443"]
    assert len(listeners) == 2
    assert [one.getMessage() for one in caplog.records] == [
        "first start: 10.0.0.2: Address already in use"
    ]
    refused.clear()
    notes.clear()
    await listeners.follow(link("10.0.0.1/24", "10.0.0.2/24"))
    assert notes == ["stop fe80::1%2", "start 10.0.0.2 443 1"]
    # One that went and is refused again is told of again.
    await listeners.follow(link("10.0.0.1/24"))
    refused.add("10.0.0.2")
    await listeners.follow(link("10.0.0.1/24", "10.0.0.2/24"))
    assert len(caplog.records) == 2
    notes.clear()
    await listeners.stop()
    assert (notes, len(listeners)) == (["stop 10.0.0.1"], 0)


async def test_it_listens_on_sixteen_addresses_at_most() -> None:
    notes: list[str] = []
    listeners = NearListeners(lambda: NotedListener(notes, set()), 0, lambda _one: None)
    await listeners.follow(link(*(f"10.0.0.{number}/24" for number in range(1, 18))))
    assert len(listeners) == ADDRESSES_MAX == 16
    assert "start 10.0.0.17 0 1" not in notes
