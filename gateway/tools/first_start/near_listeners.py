"""Listens on each address of the local link, as addresses come and go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from dtls.datagrams import join_host_port
from gateway.tools.first_start.near_links import NearLinks

ADDRESSES_MAX: Final = 16
ONE_LINK: Final = 1
"""Hops that answers go."""

_log = logging.getLogger(__name__)


class NearListener(Protocol):
    """Listens on one address."""

    async def start(self, host: str, port: int, *, hops: int | None = None) -> int:
        """Listen, as `Console.start` does."""

    async def stop(self) -> None:
        """Listen no more, as `Console.stop` does."""


class NearListeners:
    """Listeners, one for each address.

    Args:
        make: makes one.
        port: that each listens on; 0 takes a free one.
        told: is told of each address that is listened on, as host and port.

    """

    def __init__(
        self, make: Callable[[], NearListener], port: int, told: Callable[[str], None]
    ) -> None:
        self._make = make
        self._port = port
        self._told = told
        self._open: dict[str, NearListener] = {}
        self._refused: set[str] = set()

    def __len__(self) -> int:
        """Return on how many addresses it listens."""
        return len(self._open)

    async def follow(self, links: NearLinks) -> None:
        """Listen where the machine is on a link now, and nowhere else.

        Args:
            links: of the machine.

        """
        wanted = [_host(one.address, one.index) for one in links.own if one.is_served]
        wanted = wanted[:ADDRESSES_MAX]
        for host in self._open.keys() - set(wanted):
            await self._open.pop(host).stop()
        self._refused &= set(wanted)
        for host in wanted:
            if host not in self._open:
                await self._listen(host)

    async def stop(self) -> None:
        """Listen no more."""
        while self._open:
            await self._open.popitem()[1].stop()

    async def _listen(self, host: str) -> None:
        made = self._make()
        try:
            port = await made.start(host, self._port, hops=ONE_LINK)
        except OSError as error:
            if host not in self._refused:
                _log.warning("first start: %s: %s", host, error.strerror or error)
            self._refused.add(host)
            return
        self._open[host] = made
        self._refused.discard(host)
        self._told(join_host_port(host, port))


def _host(address: object, index: int) -> str:
    text = str(address)
    return f"{text}%{index}" if text.startswith("fe80:") else text
