"""One gateway's scripted life whose clients come over TLS, by websockets, and by both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from failing_tls import certificates
from faulty_gateway import World
from faulty_life import Step
from life_alone import LifeAlone


class LifeSecured(LifeAlone):
    """The life of a gateway alone, shorter.

    Args:
        folder: its state folder; certificates lie beside it.
        world: around it.

    """

    def __init__(self, folder: Path, world: World) -> None:
        beside = folder.parent / f"certificates-{folder.name}"
        beside.mkdir()
        world.certificates, rules = certificates(beside)
        super().__init__(folder, world)
        schemes = {"pub": "mqtts", "near": "ws", "away": "wss", "mortal": "mqtts", "alive": "wss"}
        for client in (*self.clients, self.alive):
            client.scheme, client.tls = schemes[client.name], rules

    def script(self) -> Iterator[Step]:
        """Yield the steps of a life, in their order."""
        yield self.gateway.start_until_up
        yield self.settle
        yield self._publish_some
        yield self._go_away
        yield self._publish_many
        yield self._die
        yield self._come_back
        yield self._restart
        yield self._publish_some
