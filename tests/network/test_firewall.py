"""The firewall of the role `firewall`, as a machine beside a Pi meets it."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from role_templates import environment_of

from benchmarks.mesh.namespaces import Namespace, run

TEMPLATE = Path(__file__).parents[2] / "deploy/ansible/roles/firewall/templates/nftables.conf.j2"
OURS, THEIRS = "fd70::1", "fd70::2"
LIMIT_S = 60.0
MLD_QUERY = 130
"""The ICMPv6 type (RFC 3810, section 5.1)."""
ROUTER_ALERT = bytes((0, 0, 5, 2, 0, 0, 1, 0))
"""A hop-by-hop header with the router alert of MLD (RFC 2711), as the kernel takes it."""
BEHIND = """
table inet behind {
    counter queries { }
    chain input {
        type filter hook input priority 10;
        icmpv6 type mld-listener-query counter name queries
    }
}
"""
"""Counts what comes through the firewall."""


@pytest.fixture
def pi() -> Iterator[Namespace]:
    """A machine with the role's firewall, open for one network's MQTT and CoAP."""
    made = Namespace("pi")
    rules = (
        environment_of(TEMPLATE)
        .get_template(TEMPLATE.name)
        .render(
            ansible_managed="a test",
            firewall_networks=["fd70::/64"],
            firewall_ssh_networks=["fd71::/64"],
            firewall_ssh_ports=[22],
            _firewall_tcp=[8883],
            _firewall_udp=[5684],
        )
    )
    made.nft(rules)
    yield made
    made.remove()


@pytest.fixture
def beside(pi: Namespace) -> Iterator[Namespace]:
    """A machine on the same wire, such as a switch that asks who listens to what."""
    made = Namespace("beside")
    made.ip("link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", pi.name)
    for space, address in ((pi, OURS), (made, THEIRS)):
        space.ip("link", "set", "wire", "up")
        space.ip("address", "add", f"{address}/64", "dev", "wire", "nodad")
    yield made
    made.remove()


def test_a_switch_may_ask_who_listens(pi: Namespace, beside: Namespace) -> None:
    """A query that is not answered cuts the Pi off from multicast; a hop-by-hop header leads it."""
    pi.nft(BEHIND)
    with beside.entered():
        mouth = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        wire = socket.if_nametoindex("wire")
    with mouth:
        mouth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, ROUTER_ALERT)
        mouth.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
        query = struct.pack("!BBHHH16sBBH", MLD_QUERY, 0, 0, 100, 0, bytes(16), 2, 125, 0)
        until_s = time.monotonic() + LIMIT_S
        while _heard(pi) == 0:
            assert time.monotonic() < until_s, "no query came through"
            with contextlib.suppress(OSError):  # it has no address of the link yet
                mouth.sendto(query, ("ff02::1", 0, 0, wire))
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("port", "source", "passes"),
    [(8883, THEIRS, True), (1883, THEIRS, False), (22, THEIRS, False), (22, "fd71::2", True)],
    ids=["mqtts", "plain mqtt", "ssh from another network", "ssh"],
)
def test_a_port_is_open_for_its_networks_alone(
    pi: Namespace, beside: Namespace, port: int, source: str, passes: bool
) -> None:
    """A connection that is not let in gets no answer, where a closed port would refuse it."""
    if source != THEIRS:
        beside.ip("address", "add", f"{source}/64", "dev", "wire", "nodad")
        pi.ip("route", "add", "fd71::/64", "dev", "wire")
    with pi.entered():
        listening = socket.create_server((OURS, port), family=socket.AF_INET6)
    with beside.entered():
        asking = socket.socket(socket.AF_INET6)
    with listening, asking:
        asking.bind((source, 0))
        asking.settimeout(LIMIT_S if passes else 2.0)
        if passes:
            asking.connect((OURS, port))
        else:
            with pytest.raises(TimeoutError):
                asking.connect((OURS, port))


def _heard(pi: Namespace) -> int:
    """Return how many queries the firewall has let through."""
    told = run(*pi.command("nft", "list", "counter", "inet", "behind", "queries"))
    found = re.search(r"packets (\d+)", told)
    assert found is not None, told
    return int(found[1])
