"""Clients as hooks are told of them: whose they are, and how they are named for people."""

from __future__ import annotations

import pytest

from gateway.broker.hooks import Client
from gateway.trust.tls.peer_certificate import PeerCertificate

PROOF = PeerCertificate("anna", frozenset(("writer", "reader")))
LINES = r"c\n" * 32
CLIENTS = {
    "no name": (
        Client("c", None, "192.0.2.7", 5),
        (None, False),
        None,
        "'c' (192.0.2.7), no user, MQTT 5.0",
    ),
    "a name alone": (
        Client("c", "anna", "192.0.2.7", 4),
        ("anna", False),
        None,
        "'c' (192.0.2.7), user 'anna', MQTT 3.1.1",
    ),
    "a name that was proved": (
        Client("c", "anna", "192.0.2.7", 5, PROOF),
        ("anna", True),
        ("reader", "writer"),
        "'c' (192.0.2.7), user 'anna' by certificate, MQTT 5.0",
    ),
    "long names with line ends": (
        Client("c\n" * 33, "c\n" * 33, "192.0.2.7", 5),
        ("c\n" * 33, False),
        None,
        f"'{LINES}' (192.0.2.7), user '{LINES}', MQTT 5.0",
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_its_users_by_name_and_proof_together_and_is_named_in_quotes(name: str) -> None:
    client, owner, roles, introduced = CLIENTS[name]
    assert (client.owner, client.roles) == (owner, roles)
    assert client.introduced() == introduced
    assert str(client) == introduced.partition(", ")[0]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_before_a_restart_is_the_same_users(name: str) -> None:
    client, owner, roles, _ = CLIENTS[name]
    away = Client.away(client.client_id, client.username, client.roles, client.version)
    assert (away.owner, away.roles, away.address) == (owner, roles, "")
    assert (away.client_id, away.version) == (client.client_id, client.version)


def test_a_certificate_that_names_no_role_is_not_none() -> None:
    away = Client.away("c", "anna", (), 5)
    assert (away.owner, away.roles) == (("anna", True), ())
    assert Client.away("c", None, (), 5).owner == (None, True)
