"""The Resource Directory as a peer of the engine meets it (RFC 9176, RFC 7641)."""

from __future__ import annotations

import socket

import pytest

from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.directory_answers import DirectoryAnswers
from gateway.coap.peers import SessionAddress
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches

GET, POST, DELETE = 1, 2, 4
URI_PATH, URI_QUERY, LOCATION_PATH = 11, 15, 8
ADDRESS = PeerAddress(("192.0.2.7", 5684), socket.AF_INET)
PUMP = CoapPeer(SessionAddress(1, ADDRESS), "pump", "psk:pump", is_address_proven=True)


class World:
    """A directory, what it answers, and what observers are told."""

    def __init__(self) -> None:
        watches = Watches()
        self.registry = Registry("/rd/1-", listeners=(watches,))
        self.answers = DirectoryAnswers(DirectoryService(self.registry, watches), lambda: self.now)
        self.now = 100.0
        self.told: list[tuple[int, str]] = []

    def ask(
        self, method: int, path: str, *queries: str, payload: bytes = b"", peer: CoapPeer = PUMP
    ) -> CoapResponse | None:
        return self.answers.answer(request(method, path, *queries, payload=payload), peer, 0.0)

    def observe(self, exchange: int, path: str, *queries: str) -> bool:
        return self.answers.observe(
            exchange,
            request(GET, path, *queries),
            lambda number, response, _: self.told.append((number, response.payload.decode())),
        )


def request(method: int, path: str, *queries: str, payload: bytes = b"") -> CoapRequest:
    options = [(URI_PATH, segment.encode()) for segment in path.split("/")]
    options += [(URI_QUERY, query.encode()) for query in queries]
    return CoapRequest(method, tuple(options), payload)


def test_a_registration_is_based_where_its_session_comes_from_and_is_found() -> None:
    world = World()
    created = world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert created is not None
    assert created.code == 0x41
    assert next(value for number, value in created.options if number == LOCATION_PATH) == b"rd"
    found = world.ask(GET, "rd-lookup/res", "rt=flow")
    assert found is not None
    assert found.payload.startswith(b"<coaps://192.0.2.7/flow>")


def test_who_observes_a_look_up_is_told_of_what_changes_it_and_of_nothing_else() -> None:
    world = World()
    assert world.observe(7, "rd-lookup/res", "rt=flow")
    world.ask(POST, "rd", "ep=lamp", payload=b"</light>;rt=light")
    assert world.told == []
    created = world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert created is not None
    assert [exchange for exchange, _ in world.told] == [7]
    assert "</flow>" in world.told[0][1] or "/flow>" in world.told[0][1]
    location = "/".join(v.decode() for number, v in created.options if number == LOCATION_PATH)
    world.ask(DELETE, location)
    assert world.told[1:] == [(7, "")]


def test_who_observes_is_told_when_what_was_found_expires() -> None:
    world = World()
    world.ask(POST, "rd", "ep=pump", "lt=60", payload=b"</flow>;rt=flow")
    assert world.observe(7, "rd-lookup/ep", "ep=pump")
    world.now += 61.0
    assert world.registry.expire(world.now)
    world.answers.changed()
    assert world.told == [(7, "")]


def test_an_observation_that_has_ended_is_told_nothing() -> None:
    world = World()
    assert world.observe(7, "rd-lookup/res")
    world.answers.ended(7)
    world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert world.told == []


@pytest.mark.parametrize("path", ["sensors/x", ".well-known/core", ".well-known/rd"])
def test_what_is_not_the_directorys_is_left_to_others(path: str) -> None:
    world = World()
    assert world.ask(GET if path != ".well-known/rd" else POST, path) is None
    assert not world.observe(7, path)
