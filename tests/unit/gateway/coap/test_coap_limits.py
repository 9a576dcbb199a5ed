"""Goal: what CoAP's peers are refused is counted, logged once a second, and set by the file."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket
import tomllib
from dataclasses import replace
from pathlib import Path

import aiocoap
import pytest
from aiocoap import resource

from coap_engine.limits import DEFAULT_LIMITS, EngineLimits
from dtls.keystore import Keystore
from gateway.base.toml.toml_file import ConfigError
from gateway.coap.limits import CoapLimits, held_bytes_least
from gateway.coap.remote.queries_section import QueriesSection
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.coap.topics.section import TopicsSection
from gateway.coap.topics.shares import TopicLimits
from gateway.process.configuration import config
from gateway.process.configuration.listener_sections import CoapSection
from tests.policies import keys_may_all
from tree_handler.remote.limits import QueryLimits


def server_of(engine: EngineLimits) -> CoapServer:
    site = resource.Site()
    site.add_resource(["value"], resource.Resource())
    rules = CoapRules(engine=engine)
    at = CoapListener(("127.0.0.1",), 0)
    access = keys_may_all()
    return CoapServer(site, coap=at, coaps=None, keystore=Keystore(), access=access, rules=rules)


async def test_who_sends_too_much_is_told_when_to_come_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    # The peers of this test are on this machine, which has a rate of its own.
    datagrams = replace(DEFAULT_LIMITS.shares.datagrams, here=10.0)
    few = replace(DEFAULT_LIMITS, shares=replace(DEFAULT_LIMITS.shares, datagrams=datagrams))
    async with server_of(few) as server, asyncio.timeout(60):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.setblocking(False)
            peer.connect(("127.0.0.1", server.coap_port))
            for number in range(200):
                ping = aiocoap.Message(code=aiocoap.GET, uri_path=("value",))
                ping.mtype, ping.mid, ping.token = aiocoap.CON, number, b"t"
                await loop.sock_sendall(peer, ping.encode())
            codes = set()
            while aiocoap.TOO_MANY_REQUESTS not in codes:
                answer = aiocoap.Message.decode(await loop.sock_recv(peer, 2_000))
                codes.add(answer.code)
            assert answer.opt.max_age == 1
        while not server.counts().refusals["datagrams_host"]:
            await asyncio.sleep(0.01)
        assert server.counts().events["received"] > 10
    told = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert 1 <= len(told) <= 5
    assert "datagrams_host" in told[0].getMessage()


def test_limits_are_those_of_the_engine_and_of_the_sessions() -> None:
    limits = CoapLimits(
        address_datagrams_per_s=5.0,
        datagrams_per_s=50.0,
        observations=10,
        address_observations=3,
        body_bytes=2_048,
        sessions=7,
    )
    engine = limits.engine
    assert (engine.shares.datagrams.strangers, engine.shares.datagrams.host) == (50.0, 5.0)
    assert (engine.shares.observations.strangers, engine.shares.observations.host) == (10, 3)
    # What strangers may have is no part of what those with a key have.
    assert engine.shares.observations.everybody > 10
    assert engine.bodies.body_bytes == 2_048
    assert limits.dtls.established == 7


def test_room_for_bodies_is_for_one_of_the_longest_and_for_all_that_a_command_asks_for() -> None:
    asked = 16 * (65_536 + 2_048)
    assert held_bytes_least(1_024) == asked
    assert held_bytes_least(asked - 8_192) == asked
    assert held_bytes_least(asked - 8_191) == asked + 1
    usual, most = DEFAULT_LIMITS.shares.held_bytes, 16 << 20
    of_peers = CoapLimits(body_bytes=most).engine.shares.held_bytes
    for name in ("host", "strangers", "principal", "everybody"):
        least = max(getattr(usual, name), most + 8_192)
        assert getattr(of_peers, name) == least, name
        few = getattr(CoapLimits(body_bytes=1_024).engine.shares.held_bytes, name)
        assert few == max(getattr(usual, name), asked), name


def test_who_has_a_key_may_observe_beside_all_that_strangers_may() -> None:
    usual = DEFAULT_LIMITS.shares.observations
    for strangers in (0, 10, 1_000_000):
        limits = CoapLimits(observations=strangers).engine.shares.observations
        assert limits.strangers == strangers
        assert limits.everybody - strangers == usual.everybody - usual.strangers
        assert limits.principal == usual.principal


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"datagrams_per_s": 0.0}, "datagrams_per_s"),
        ({"body_bytes": 100}, "body_bytes"),
        ({"sessions": 0}, "sessions"),
        ({"observations": -1}, "observations"),
    ],
)
def test_a_limit_that_is_out_of_range_is_named(given: dict[str, float], where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CoapLimits(**given)  # type: ignore[arg-type]  # one key with a number of its type
    assert caught.value.where == where


def coap_of(folder: Path, text: str) -> CoapSection:
    """Return the CoAP section of a configuration that has this text."""
    (folder / "tree.key").write_text("ab" * 32)
    file = folder / "gateway.toml"
    file.write_text(
        '[gateway]\nid = "gw"\nstate_dir = "state"\n'
        f'[tree]\nkey_file = "tree.key"\ntls = "off"\n{text}'
    )
    return config.load(file, config.GatewaySettings).coap


def test_the_limits_of_queries_and_topics_are_those_of_the_file(tmp_path: Path) -> None:
    section = coap_of(
        tmp_path,
        "[coap.queries]\nasked = 8\nasked_of_peer = 4\n[coap.topics]\nuser_requests = 70\n",
    )
    assert section.queries.limits == QueryLimits(asked=8, asked_of_peer=4)
    assert section.topics.limits == TopicLimits(user_requests=70)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[coap.queries]\nasked = 0\n", "coap.queries.asked"),
        ("[coap.queries]\ncached_bytes = 100\n", "coap.queries.cached_bytes"),
        ("[coap.queries]\nasked = 10\nasked_of_peer = 11\n", "coap.queries.asked_of_peer"),
        ("[coap.topics]\nuser_bytes = 1\n", "coap.topics.user_bytes"),
        ("[coap.topics]\nclient_requests = 65\n", "coap.topics.client_requests"),
    ],
)
def test_a_limit_that_can_not_hold_is_refused_by_its_name(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        coap_of(tmp_path, text)


def test_what_the_file_can_say_of_queries_is_all_that_is_limited() -> None:
    assert QueriesSection().limits == QueryLimits()
    assert TopicsSection().limits == TopicLimits()


def test_the_page_on_the_configuration_says_what_they_are() -> None:
    page = (Path(__file__).parents[4] / "docs" / "configuration.md").read_text()
    said = tomllib.loads(page.split("```toml\n")[1].split("```")[0])["coap"]
    assert said["queries"] == dataclasses.asdict(QueriesSection())
    assert said["topics"] == dataclasses.asdict(TopicsSection())


@pytest.mark.parametrize("kind", ["registrations", "bytes"])
def test_one_owner_has_no_more_of_the_directory_than_there_is(tmp_path: Path, kind: str) -> None:
    most = 70_000
    text = f"[coap.directory]\n{kind} = {most}\n{kind}_of_owner = "
    assert dataclasses.asdict(coap_of(tmp_path, f"{text}{most}\n").directory)[kind] == most
    why = f"coap.directory.{kind}_of_owner.* 70001 is more than {kind}"
    with pytest.raises(ConfigError, match=why):
        coap_of(tmp_path, f"{text}{most + 1}\n")
