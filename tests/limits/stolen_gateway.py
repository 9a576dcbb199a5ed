"""A stolen gateway in a process of its own, for `attacking`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from attacking import Attacker
from authority import Issued
from cryptography import x509
from fleet_gateway import FleetGateway
from thief import Known, Thief, look_at_no_signatures

THIEF = "gw-x"
ROUNDS = 20
"""Of forged batches and claims, between two claims that end a link."""
ROUND_S = 0.02
LINKED_S = 60.0

Files = tuple[Path, Path]
"""A certificate and its key."""


def read(files: Files) -> Issued:
    certificate, key = files
    return Issued(certificate, key, x509.load_pem_x509_certificate(certificate.read_bytes()))


class StolenGateway(Attacker):
    """Runs the gateway, linked to its victims, and tells each of them what the others never said.

    Args:
        folder: for its files; the fleet's.
        authority: the file of the fleet's authority.
        own: its certificate and key.
        mode: of the tree.
        is_signed: whether gateways sign in it. Where they don't a thief's word counts as much as
            any, and he only claims lives.
        neighbours: where its victims take links.
        victims: certificates and keys of the victims, by id.

    """

    def __init__(
        self,
        folder: Path,
        authority: Path,
        own: Files,
        mode: str,
        is_signed: bool,
        neighbours: list[str],
        victims: Mapping[str, Files],
    ) -> None:
        super().__init__()
        self._victims = {name: read(files) for name, files in victims.items()}
        self._loop = asyncio.new_event_loop()
        issued = read(own)
        self._gateway = FleetGateway(folder, THIEF, issued, authority)
        self._is_signed = is_signed
        tree = {"mode": mode, "signatures": "on" if is_signed else "off"}
        start = self._gateway.start(capability=1.0, neighbours=neighbours, **tree)
        self._loop.run_until_complete(start)
        look_at_no_signatures(self._gateway.process)
        self._thief = Thief(self._gateway.process, issued)
        self._loop.run_until_complete(self._linked())

    def step(self) -> bool:
        self._loop.run_until_complete(self._attack())
        return True

    def close(self) -> None:
        self._loop.run_until_complete(self._gateway.stop())
        self._loop.close()

    async def _attack(self) -> None:
        for _ in range(ROUNDS if self._is_signed else 1):
            for victim in self._known() if self._is_signed else ():
                self._thief.attack(victim)
                self.seen["attacks"] += 1
                await asyncio.sleep(ROUND_S)
            await asyncio.sleep(ROUND_S)  # there may be none that it knows of
        self._thief.count_far(self.seen["lives claimed"])
        for victim in self._known():
            self._thief.claim_lives(victim, self.seen["lives claimed"])
        self.seen["lives claimed"] += 1

    async def _linked(self) -> None:
        async with asyncio.timeout(LINKED_S):
            while self._gateway.links != set(self._victims):
                await asyncio.sleep(ROUND_S)

    def _known(self) -> list[Known]:
        """Return what its own gateway has been told of each victim that lives."""
        node = self._gateway.process.parts.node
        lives = {name: node.locator.epoch_of(name) for name in self._victims}
        return [
            Known(name, life, node.replication.covered((name, life)).last + 1, self._victims[name])
            for name, life in lives.items()
            if life
        ]
