"""Goal: neighbours are served, and nobody who comes through a router."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.first_start import near_links, own_links
from gateway.tools.first_start.near_links import NearLinks, OwnAddress


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
