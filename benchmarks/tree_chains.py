"""Chains of brokers, as processes of their own on loopback: gateways, Mosquitto bridges, Zenoh.

Each end of a chain takes clients; what is published at one comes to the subscribers of the other.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import broker_figures as figures
from benchmarks.broker_peers import Broker, MissingPeerError, gateway_id, mosquitto, ours
from benchmarks.broker_process import RunningBroker, StartError, free_port, launched
from benchmarks.fleet_certificates import FleetCertificates
from gateway.mqtt import Connect, Publish, Subscribe, SubscriptionRequest, Version, encode

_THROUGH_LIMIT_S = 120.0
ZENOH = "zenoh"

Link = Callable[[Broker, int], Broker]
"""The same broker, linked to the one before it in the chain, whose port is given."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of chain: its members, and how they are linked.

    Attributes:
        broker: one of its members.
        link: gives a member that is linked to the one before it.
        speaks_mqtt: true if its ends take MQTT clients.

    """

    broker: Broker
    link: Link
    speaks_mqtt: bool = True

    @property
    def name(self) -> str:
        """As it is shown."""
        return self.broker.name


@dataclass(frozen=True, slots=True)
class Chain:
    """A running chain."""

    name: str
    brokers: Sequence[RunningBroker]
    speaks_mqtt: bool

    @property
    def publish_port(self) -> int:
        """The port that the publisher connects to."""
        return self.brokers[0].port

    @property
    def subscribe_port(self) -> int:
        """The port that the subscriber connects to."""
        return self.brokers[-1].port

    def cpu_s(self) -> float:
        """Processor time that all its members have taken."""
        return sum(broker.cpu_s() for broker in self.brokers)


@contextmanager
def running(kind: Kind, hops: int, folder: Path) -> Iterator[Chain]:
    """Yield a chain, as long as the context is open.

    Raises:
        StartError: a member does not start, or nothing comes through.

    """
    folder.mkdir()
    brokers: list[RunningBroker] = []
    with ExitStack() as stack:
        for number in range(hops + 1):
            broker = replace(kind.broker, name=f"{kind.name} {number}")
            if brokers:
                broker = kind.link(broker, brokers[-1].port)
            place = folder / str(number)
            place.mkdir()
            brokers.append(stack.enter_context(launched(broker, place)).wait())
        chain = Chain(kind.name, brokers, kind.speaks_mqtt)
        if kind.speaks_mqtt:
            _wait_until_through(chain)
        yield chain


def gateways(
    name: str,
    durability: str = "write",
    *,
    tls: str = "off",
    signatures: str = "on",
) -> Kind:
    """Return a chain of gateways; each dials the one before it.

    Args:
        name: as it is shown.
        durability: ``write`` or ``sync``.
        tls: of the links, see `TreeSection`.
        signatures: of batches, where links use TLS.

    """
    link_ports: dict[int, int] = {}
    """The port at which a gateway takes links, by the one at which it takes clients."""

    def member(name: str, before: Sequence[int] = ()) -> Broker:
        def tables(folder: Path, port: int) -> dict[str, dict[str, Any]]:
            dialled = [f"127.0.0.1:{link_ports[one]}" for one in before]
            tree = {"tls": tls, "signatures": signatures, "neighbours": dialled}
            link_ports[port] = port if tls == "off" else free_port()
            if tls == "off":
                return {"tree": tree}
            own = gateway_id(port)
            certificates = FleetCertificates(folder.parent / "certificates", [own]).mqtt(own)
            return {"tree": tree, "mqtt": {"tls_port": link_ports[port], **certificates}}

        return ours(name, durability, with_neighbour=False, tables=tables)

    return Kind(member(name), lambda broker, port: member(broker.name, [port]))


def our_kinds() -> list[Kind]:
    """Chains of ours: the one that is compared, one that syncs, and then what shows a price."""
    return [
        gateways(figures.OURS),
        gateways(figures.OURS_SYNCED, "sync"),
        gateways("hedgerow, links in TLS, unsigned", tls="required", signatures="off"),
        gateways("hedgerow, links in TLS, signed", tls="required"),
    ]


def mosquitto_bridges() -> Kind:
    """Mosquitto brokers; each has a bridge to the one before it, both ways' delays off.

    Raises:
        MissingPeerError: it is not installed.

    """

    def link(broker: Broker, port: int) -> Broker:
        def prepare(folder: Path, own_port: int) -> list[str]:
            command = broker.prepare(folder, own_port)
            with (folder / "mosquitto.conf").open("a") as config:
                config.write(
                    f"connection to-{port}\naddress 127.0.0.1:{port}\ntopic # in 2\n"
                    "cleansession true\nnotifications false\nrestart_timeout 1\n"
                )
            return command

        return replace(broker, prepare=prepare)

    return Kind(mosquitto(nodelay=True), link)


def zenoh_routers() -> Kind:
    """Zenoh routers, each in a Python process that does nothing else.

    Raises:
        MissingPeerError: it is not installed.

    """
    try:
        number = version("eclipse-zenoh")
    except PackageNotFoundError as error:
        raise MissingPeerError("zenoh is not installed: pip install eclipse-zenoh") from error
    program = [sys.executable, "-m", "benchmarks.zenoh_load", "route"]

    def link(broker: Broker, port: int) -> Broker:
        return replace(
            broker, prepare=lambda _, own_port: [*program, str(own_port), f"--connect={port}"]
        )

    broker = Broker(f"{ZENOH} {number}", "nothing", lambda _, port: [*program, str(port)])
    return Kind(broker, link, speaks_mqtt=False)


def peers() -> tuple[list[Kind], list[str]]:
    """Return the peers that this machine has, and a line for each that it has not."""
    found: list[Kind] = []
    missing: list[str] = []
    for find in (mosquitto_bridges, zenoh_routers):
        try:
            found.append(find())
        except MissingPeerError as error:
            missing.append(str(error))
    return found, missing


def _wait_until_through(chain: Chain) -> None:
    """Publish at one end until it comes at the other."""
    end_s = time.monotonic() + _THROUGH_LIMIT_S
    with (
        _client(chain.publish_port, "probe-p") as publisher,
        _client(chain.subscribe_port, "probe-s") as subscriber,
    ):
        topic = SubscriptionRequest("probe", 0)
        subscriber.sendall(encode(Subscribe(1, [topic]), Version.V311))
        subscriber.settimeout(0.1)
        while time.monotonic() < end_s:
            publisher.sendall(encode(Publish("probe", b"probe"), Version.V311))
            with contextlib.suppress(TimeoutError):
                if b"probeprobe" in subscriber.recv(1 << 16):
                    return
    raise StartError(f"{chain.name}: nothing comes through the chain")


@contextmanager
def _client(port: int, name: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(encode(Connect(Version.V311, name), Version.V311))
        yield client
