"""Goal: what a resource behind the guard forgets to check, the guard has checked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import aiocoap
import pytest
from aiocoap import error
from aiocoap.numbers.codes import Code
from aiocoap.optiontypes import BlockOption

from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.coap import access
from gateway.coap.access import GuardedSite, identity_of

METER = PeerIdentity(Proof.PSK, "meter-1")
BlockTuple = BlockOption.BlockwiseTuple


@dataclass(frozen=True)
class Remote:
    identity: PeerIdentity
    blockwise_key: str = "somewhere"


@dataclass
class Site:
    """Takes every request that reaches it, and keeps it open if it is told to."""

    served: list[Code] = field(default_factory=list)
    hold: asyncio.Event | None = None

    async def render_to_pipe(self, pipe: Any) -> None:
        self.served.append(pipe.request.code)
        if self.hold is not None:
            await self.hold.wait()


@dataclass
class Pipe:
    request: Any


def pipe(code: Code, identity: PeerIdentity = ANONYMOUS, block1: Any = None) -> Pipe:
    message = aiocoap.Message(code=code)
    message.remote = Remote(identity)
    message.opt.block1 = block1
    return Pipe(message)


WRITES = [Code.POST, Code.PUT, Code.DELETE, Code.PATCH, Code.iPATCH]


@pytest.mark.parametrize("code", WRITES)
async def test_a_write_needs_an_authenticated_peer(code: Code) -> None:
    site = Site()
    with pytest.raises(error.Unauthorized):
        await GuardedSite(site).render_to_pipe(pipe(code))
    assert site.served == []
    await GuardedSite(site).render_to_pipe(pipe(code, METER))
    await GuardedSite(site, anonymous=True).render_to_pipe(pipe(code))
    assert site.served == [code, code]


@pytest.mark.parametrize("code", [Code.GET, Code.FETCH])
async def test_anybody_may_read(code: Code) -> None:
    site = Site()
    await GuardedSite(site).render_to_pipe(pipe(code))
    assert site.served == [code]


async def test_a_peer_whose_transport_knows_no_identity_is_anonymous() -> None:
    request = aiocoap.Message(code=Code.PUT)
    request.remote = object()
    assert identity_of(request) is ANONYMOUS


async def test_a_body_in_blocks_is_taken_up_to_the_limit_and_from_writers_alone() -> None:
    site = GuardedSite(Site())
    last = access.BODY_BYTES_MAX // 1024
    await site.render_to_pipe(pipe(Code.PUT, METER, BlockTuple(last, False, 6)))
    with pytest.raises(error.RequestEntityTooLarge):
        await site.render_to_pipe(pipe(Code.PUT, METER, BlockTuple(last + 1, False, 6)))
    with pytest.raises(error.RequestEntityTooLarge):
        await site.render_to_pipe(pipe(Code.FETCH, ANONYMOUS, BlockTuple(0, True, 6)))


async def test_open_requests_of_a_peer_are_limited_and_counted_down_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "OPEN_REQUESTS_OF_PEER_MAX", 2)
    inner = Site(hold=asyncio.Event())
    site = GuardedSite(inner)
    tasks = [asyncio.create_task(site.render_to_pipe(pipe(Code.GET))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(error.ServiceUnavailable):
        await site.render_to_pipe(pipe(Code.GET))
    other = pipe(Code.GET)
    other.request.remote = Remote(ANONYMOUS, "elsewhere")
    tasks.append(asyncio.create_task(site.render_to_pipe(other)))
    await asyncio.sleep(0)
    assert len(inner.served) == 3
    assert inner.hold is not None
    inner.hold.set()
    await asyncio.gather(*tasks)
    await site.render_to_pipe(pipe(Code.GET))
    assert len(inner.served) == 4


async def test_idle_waits_for_what_is_open() -> None:
    inner = Site(hold=asyncio.Event())
    site = GuardedSite(inner)
    task = asyncio.create_task(site.render_to_pipe(pipe(Code.GET)))
    await asyncio.sleep(0)
    task.cancel()
    await site.idle()
    assert task.done()
