"""Goal: certificates are renewed for years, some while a gateway is away, and none goes round.

Twelve rings of keys over links that form cycles; what is new to one goes on to its other
neighbours, as `gateway.node.signing.certificate_part` has it. Certificates are models: a name and a
day.
"""

from __future__ import annotations

import random
from collections import deque

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.node.signing.ring import MAX_KEYS, CertificateRing, fingerprint_of
from gateway.node.signing.trust import CertificateFacts, Chain, Trust

GATEWAYS = 12
RENEWALS_A_YEAR = 7
DAY_S = 24 * 3600.0
EDGES = sorted({tuple(sorted((at, (at + step) % GATEWAYS))) for at in range(12) for step in (1, 4)})


class ModelTrust(Trust):
    """Believes each certificate of the model."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate().public_key()

    def check(self, chain: Chain, now_s: float) -> CertificateFacts:
        gateway_id, day = chain[0].decode().split()
        from_s = float(day) * DAY_S
        return CertificateFacts(gateway_id, self._key, from_s, from_s + 90 * DAY_S)


class Fleet:
    """Twelve gateways, and what crosses their links."""

    def __init__(self) -> None:
        trust = ModelTrust()
        self.rings = [CertificateRing(trust, 0.0) for _ in range(GATEWAYS)]
        self.own: list[list[Chain]] = [[] for _ in range(GATEWAYS)]
        self.away: set[int] = set()
        self._on_their_way: deque[tuple[int, int, Chain]] = deque()

    def renew(self, at: int, day: int) -> None:
        chain = (f"gw-{at} {day}".encode(),)
        self.own[at].append(chain)
        if at not in self.away:
            self.take(at, at, chain)

    def take(self, at: int, source: int, chain: Chain) -> None:
        if self.rings[at].add(chain) is not None:
            for other in self.neighbours(at) - {source}:
                self._on_their_way.append((at, other, chain))

    def neighbours(self, at: int) -> set[int]:
        ends = {one for edge in EDGES if at in edge for one in edge}
        return ends - {at} - self.away

    def back(self, at: int, chain: Chain) -> None:
        """It links to its neighbours again, with this certificate; each tells what it has."""
        self.away.discard(at)
        self.take(at, at, chain)
        for other in self.neighbours(at):
            self._on_their_way.append((at, other, chain))
            for one, another in ((at, other), (other, at)):
                lacking = [c for name, c in self.rings[one] if name not in self.rings[another]]
                self._on_their_way.extend((one, another, c) for c in lacking)

    def settle(self, most: int) -> int:
        """Carry all that is on its way: how much that was, with ``most`` at most."""
        carried = 0
        while self._on_their_way and carried < most:
            source, at, chain = self._on_their_way.popleft()
            carried += 1
            if at not in self.away:
                self.take(at, source, chain)
        return carried


def live(fleet: Fleet, years: int) -> list[str]:
    """Renew for years; what was found that must not be."""
    chance = random.Random(1)
    found = []
    for at in range(GATEWAYS):
        fleet.renew(at, 0)
    fleet.settle(10_000)
    for period in range(1, years * RENEWALS_A_YEAR + 1):
        day = period * 365 // RENEWALS_A_YEAR
        for ring in fleet.rings:
            ring.follow_time(day * DAY_S)
        fleet.away = set(chance.sample(range(GATEWAYS), chance.choice((0, 1, 3))))
        gone = sorted(fleet.away)
        for at in range(GATEWAYS):
            fleet.renew(at, day)
        for at in gone:  # some come back as an older copy of their card has it
            fleet.back(at, chance.choice((fleet.own[at][0], fleet.own[at][-1])))
        # Each link carries each new certificate once each way, and what two ends tell of at first.
        most = 2 * len(EDGES) * (GATEWAYS + len(gone)) + 4 * MAX_KEYS * GATEWAYS * len(gone)
        if fleet.settle(most + 1) > most:
            found.append(f"period {period}: more than {most} messages")
            break
        found += [
            f"period {period}: {len(ring)} certificates"
            for ring in fleet.rings
            if len(ring) > MAX_KEYS * GATEWAYS
        ]
    names = [{name for name, _ in ring} for ring in fleet.rings]
    return found + ["not all have the same" for one in names[1:] if one != names[0]][:1]


def test_certificates_that_are_renewed_for_years_are_the_same_everywhere_and_none_goes_round(
    pytestconfig: pytest.Config,
) -> None:
    assert live(Fleet(), 30 if pytestconfig.getoption("--soak") else 5) == []


def test_a_ring_that_calls_new_what_it_does_not_keep_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = CertificateRing.add

    def add(self: CertificateRing, chain: Chain) -> str | None:
        was_there = fingerprint_of(chain) in self
        return real(self, chain) or (None if was_there else "somebody")

    monkeypatch.setattr(CertificateRing, "add", add)
    found = live(Fleet(), 5)
    assert any("messages" in what for what in found)
