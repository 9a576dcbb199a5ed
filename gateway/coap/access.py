"""Who may do what over CoAP, decided once before any resource is asked (row A8).

`GuardedSite` stands between aiocoap and the site: a resource behind it can't be written by a
peer that did not show who it is, whatever the resource forgets to check.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiocoap import error
from aiocoap.numbers.codes import Code

from dtls.identity import ANONYMOUS, PeerIdentity

READS = frozenset({Code.GET, Code.FETCH})
"""Methods that change nothing (RFC 7252, section 5.8; RFC 8132). All others are writes."""
OPEN_REQUESTS_MAX = 4_096
"""Requests and observations being served at once, of all peers."""
OPEN_REQUESTS_OF_PEER_MAX = 256
"""The same, of one peer; each observation counts for as long as it lasts."""
BODY_BYTES_MAX = 256 * 1024
"""A request that comes in blocks (RFC 7959) may be so long."""


def identity_of(request: Any) -> PeerIdentity:
    """Who sent an aiocoap request; `ANONYMOUS` if its transport does not know."""
    identity = getattr(request.remote, "identity", ANONYMOUS)
    return identity if isinstance(identity, PeerIdentity) else ANONYMOUS


class GuardedSite:
    """A site as aiocoap's context wants it, with access control before it.

    Args:
        site: what serves a request that may pass.
        anonymous: let anybody write; for tests and for a network that is trusted as a whole.

    """

    def __init__(self, site: Any, *, anonymous: bool = False) -> None:
        self._site = site
        self._anonymous = anonymous
        self._open_of_peer: dict[Any, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def peers(self) -> int:
        """Who has a request or an observation open."""
        return len(self._open_of_peer)

    @property
    def open_requests(self) -> int:
        """Requests and observations that are being served."""
        return len(self._tasks)

    async def render_to_pipe(self, pipe: Any) -> None:
        """Serve a request, or refuse it.

        Raises:
            aiocoap.error.Unauthorized: a write by a peer that may not (4.01).
            aiocoap.error.RequestEntityTooLarge: a body in blocks over the limit (4.13).
            aiocoap.error.ServiceUnavailable: too many requests are open (5.03).

        """
        request = pipe.request
        may_write = self._anonymous or identity_of(request).may_write
        if request.code not in READS and not may_write:
            raise error.Unauthorized
        block = request.opt.block1
        if block is not None and (
            # A body is put together in memory before a resource sees it; nobody needs one to read.
            not may_write or block.start + len(request.payload) > BODY_BYTES_MAX
        ):
            raise error.RequestEntityTooLarge
        # As a block key, an address is one peer and keeps no session alive.
        peer = request.remote.blockwise_key
        open_now = self._open_of_peer.get(peer, 0)
        if open_now >= OPEN_REQUESTS_OF_PEER_MAX or len(self._tasks) >= OPEN_REQUESTS_MAX:
            raise error.ServiceUnavailable
        self._open_of_peer[peer] = open_now + 1
        task = asyncio.current_task()
        assert task is not None  # aiocoap renders in a task of its own
        self._tasks.add(task)
        try:
            await self._site.render_to_pipe(pipe)
        finally:
            self._tasks.discard(task)
            self._open_of_peer[peer] -= 1
            if not self._open_of_peer[peer]:
                del self._open_of_peer[peer]

    async def idle(self) -> None:
        """Wait until no request is open any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)
