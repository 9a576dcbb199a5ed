"""Guesses at passwords: who is held back after so many, and who is not."""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.broker.access.authentication import Authentication
from gateway.broker.hooks import Client
from gateway.broker.limits import Limits, counted_refusals
from gateway.trust.tls.peer_certificate import PeerCertificate

OVER = "authentication over the limit of an address"


class KnowsNobody:
    """Plugins that let nobody in."""

    async def knows(self, client: Client, password: bytes | None) -> bool | None:
        return False


async def test_an_address_that_failed_too_often_is_held_back_for_users_who_prove_nothing() -> None:
    refusals = counted_refusals(lambda: 0.0)
    authentication = Authentication(
        None,
        binds_client_ids=False,
        anonymous=False,
        plugins=KnowsNobody(),
        limits=Limits(failures_at_once=2, failures_per_s=0.000_1),
        refusals=refusals,
    )

    async def is_let_in(client: Client) -> bool:
        verdict = authentication.decide(client, b"guess")
        return await verdict if isinstance(verdict, Awaitable) else verdict

    proof = PeerCertificate("anna", frozenset())
    unnamed = Client("c", None, "192.0.2.7", 5)
    proved = Client("c", "anna", "192.0.2.7", 5, proof)
    for _ in range(4):
        assert not await is_let_in(unnamed)
        assert not await is_let_in(proved)
    for expected in (0, 0, 1, 2):
        assert not await is_let_in(Client("c", "anna", "192.0.2.7", 5))
        assert refusals.counts.get(OVER, 0) == expected
    for client in (unnamed, proved, Client("c", "anna", "192.0.2.8", 5)):
        await is_let_in(client)
    assert refusals.counts == {OVER: 2}
