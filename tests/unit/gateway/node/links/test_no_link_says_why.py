"""Two gateways that find each other and do not link: both say why, once, and show it."""

from __future__ import annotations

import datetime
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from fleet_gateway import Fleet, FleetGateway, until
from ports import free_port

from gateway.coap_client import Response
from gateway.node.links import neighbours, wire
from gateway.node.links.refusal import Refusal, RefusedError, reason
from gateway.process.status.text import as_text
from gateway.process.status.tree_view import collect

KEY = "ab" * 32


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def other_tree(b: FleetGateway) -> dict[str, Any]:
    return {"name": "another"}


def other_key(b: FleetGateway) -> dict[str, Any]:
    b.key_file = b.folder / "other.key"
    b.key_file.write_text("cd" * 32)
    return {}


def other_mode(b: FleetGateway) -> dict[str, Any]:
    return {"mode": "routed"}


def warnings(log: pytest.LogCaptureFixture, *parts: str) -> list[str]:
    """Lines at the default level that contain all of these."""
    lines = [r.getMessage() for r in log.records if r.levelno >= logging.INFO]
    return [line for line in lines if all(part in line for part in parts)]


def dialled(gateway: FleetGateway) -> dict[str, Any]:
    """The only address that it dials."""
    (one,) = gateway.process.status()["dialling"]["addresses"]
    return dict(one)


def refused(gateway: FleetGateway) -> str:
    """Return the reason why the gateway last refused a link, or an empty text."""
    told = gateway.process.status()["refused_links"]
    return str(told[0]["why"]) if told else ""


@pytest.mark.parametrize(
    ("differ", "dialler_says", "other_says"),
    [
        (other_tree, "the neighbour is of another tree", "another tree: 'another'"),
        (other_key, "does not hold the tree's key: 'gw-a'", "holds another key of the tree"),
        (other_mode, "tree.mode of gw-a is not routed: 'flood'", "has another tree.mode"),
    ],
)
async def test_both_ends_say_what_differs_and_show_it(
    fleet: Fleet,
    caplog: pytest.LogCaptureFixture,
    differ: Callable[[FleetGateway], dict[str, Any]],
    dialler_says: str,
    other_says: str,
) -> None:
    caplog.set_level(logging.INFO)
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    where = f"127.0.0.1:{a.port}"
    await b.start(**differ(b), neighbours=[where])
    await until(lambda: dialled(b)["failed"] >= 2 and other_says in refused(a))
    told = dialled(b)
    assert (told["address"], told["linked"]) == (where, False)
    assert dialler_says in told["why"]
    assert told["fails_since_s"] > 1e9
    assert len(warnings(caplog, where, dialler_says)) == 1
    assert len(warnings(caplog, "127.0.0.1: ", other_says, "link hand-shake failed")) == 1
    assert f"no link to {where} (static): {told['why']} (for " in as_text(b.process.status())
    assert f"refused a link from 127.0.0.1: {refused(a)}" in as_text(a.process.status())


async def test_what_the_peer_is_told_does_not_say_what_is_set_here(fleet: Fleet) -> None:
    a = fleet.gateway("gw-a", tls=False)
    await a.start(name="the-name-of-this-tree", mode="routed")
    with socket.create_connection(("127.0.0.1", a.port)) as stranger:
        stranger.setblocking(False)
        loop_recv, got = stranger.recv, bytearray()
        stranger.sendall(wire.LinkConnect("gw-b", "guessed", bytes(16)).encode())

        def is_over() -> bool:
            try:
                data = loop_recv(1000)
            except BlockingIOError:
                return False
            got.extend(data)
            return not data

        await until(is_over)
    assert bytes(got) == wire.connack(Refusal.OTHER_TREE)


async def test_a_closed_port_and_an_unknown_host_are_said_by_the_dialler(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.socket() as bound:  # nobody listens there
        bound.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{bound.getsockname()[1]}"
        b = fleet.gateway("gw-b", tls=False)
        await b.start(neighbours=[closed, "no-such-host.invalid:1883"])
        for where, why in ((closed, "Connection refused"), ("no-such-host", "unknown host name")):
            await until(lambda where=where, why=why: warnings(caplog, where, why))
            assert len(warnings(caplog, where, why)) == 1
            assert f"no link to {where}" in as_text(b.process.status())


async def test_a_neighbour_that_is_only_starting_is_not_complained_of(
    fleet: Fleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(neighbours, "GRACE_S", 60.0)  # however long the start takes
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    a.plain_port = free_port()
    await b.start(neighbours=[f"127.0.0.1:{a.plain_port}"])
    await until(lambda: dialled(b)["failed"] > 0)
    await a.start()
    await until(lambda: dialled(b)["linked"])
    told = dialled(b)
    assert (told["why"], told["failed"], told["fails_since_s"]) == ("", 0, None)
    assert not warnings(caplog, "no link to")
    assert "no link" not in as_text(b.process.status())


@pytest.mark.parametrize("at_fault", ["dialler", "other"])
async def test_a_certificate_that_is_not_accepted_is_said_by_both(
    fleet: Fleet, caplog: pytest.LogCaptureFixture, tmp_path: Path, at_fault: str
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign").issue
    names = ("gw-b", "gw-a") if at_fault == "dialler" else ("gw-a", "gw-b")
    wrong = fleet.gateway(names[0], issued=foreign(names[0], is_gateway=True))
    right = fleet.gateway(names[1])
    a, b = (right, wrong) if at_fault == "dialler" else (wrong, right)
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    say = "not accepted there" if at_fault == "dialler" else "its certificate is not accepted here"
    await until(lambda: warnings(caplog, f"127.0.0.1:{a.port}", say))
    await until(lambda: warnings(caplog, "TLS handshake failed"))
    assert say in dialled(b)["why"]


async def test_the_tree_names_who_is_dialled_in_vain(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    where = f"127.0.0.1:{a.port}"
    await b.start(name="another", neighbours=[where])
    await until(lambda: dialled(b)["failed"] > 0)

    async def ask(_: str) -> Response:
        return Response("2.05", json.dumps(b.process.status()).encode(), None)

    view = await collect(ask)
    assert f"gw-b: no link to {where} (static): the neighbour is of another tree" in view.as_text()
    assert view.as_json()["gateways"]["gw-b"]["dialling"]["addresses"][0]["address"] == where


def test_a_code_that_is_not_known_is_told_as_a_number() -> None:
    assert str(RefusedError(200)) == "refused by the neighbour, code 200"


@pytest.mark.parametrize("of_time", ["CRL is not yet valid", "certificate has expired"])
def test_a_certificate_out_of_its_time_is_named_with_the_day_that_the_clock_shows(
    of_time: str,
) -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = of_time
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    assert reason(error).endswith(f": {of_time} (by this machine's clock it is {today})")
