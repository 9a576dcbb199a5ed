"""Dialling of neighbours, static and found: which, when, and when to give up.

An address is dialled until it holds a link, with exponential back-off and jitter, so that a
fleet that comes back from a power cut does not knock in step. A static neighbour is dialled for
as long as it is configured. One that announced itself, or that dialled this gateway (B1), is
given up after a while; its next word brings it back. What DNS-SD lists nobody has vouched for: it
has fewer places, and keeps its own only while it is listed. A substitute for static neighbours that
are gone is dialled until it is removed (`tree_handler.members.substitution` says which, and when).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, field
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.node.links.dial_failures import (
    GRACE_S,
    OTHER_LIFE_PATIENCE_S,
    STRANGERS_AT_ONCE,
    STRANGERS_PER_S,
    DialFailures,
)
from gateway.node.links.handshake import NoPlaceError, SelfDialError
from gateway.node.links.refusal import Refusal, reason
from gateway.node.links.transport import Address
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.rate_limit import RateLimit

FIRST_RETRY_S: Final = 0.1
LAST_RETRY_S: Final = 5.0
STEADY_S: Final = 1.0
"""A link that ends sooner is not dialled again faster than one that never came about."""
GIVE_UP_S: Final = 120.0
"""A neighbour that was found and does not answer for so long is forgotten."""
DIAL_BACK_S: Final = 1.0
"""Of two that discover each other the lower id dials first; the other waits this long."""
MAX_FOUND: Final = 256
"""Neighbours that announced themselves or dialled; more are not dialled."""
MAX_LISTED: Final = 64
"""Neighbours from DNS-SD; more are not dialled."""
ITSELF_RETRY_S: Final = 60.0
"""An address that was this gateway's own may become another's."""
LINK_ENDED_S: Final = 1.0
"""So long after its link has ended a neighbour that dialled us is dialled back."""
OTHER_LIFE_RETRY_S: Final = 30.0
"""The interval at which a gateway tries whose place another one has that runs under its id."""
MAX_TOLD: Final = 32
"""Addresses that status names, those with trouble first; the others are counted."""

_log = logging.getLogger(__name__)


class Source(enum.Enum):
    """A source from which an address became known."""

    STATIC = "static"
    FOUND = "found"
    LISTED = "listed"
    SUBSTITUTE = "substitute"


@dataclass(slots=True)
class DialCounts:
    """Counts of dialled links, for status."""

    dialled: int = 0
    failed: int = 0
    itself: int = 0
    given_up: int = 0
    over_limit: int = 0


@dataclass(slots=True)
class _Kept:
    source: Source
    peer_id: str | None
    met_id: str | None = None
    task: asyncio.Task[None] | None = None
    trouble: DialFailures = field(default_factory=DialFailures)
    waits: bool = False
    """It has a link that another one's dialling has made, and is dialled once that ends."""

    def linked(self, peer_id: str) -> None:
        self.peer_id = peer_id
        self.trouble.over()

    @property
    def known_id(self) -> str | None:
        """Return the gateway that answered there, or else the one that says it would."""
        return self.peer_id or self.met_id

    def as_json(self, address: Address, *, is_linked: bool) -> dict[str, Any]:
        trouble = self.trouble
        return {
            "address": str(address),
            "source": self.source.value,
            "id": self.known_id,
            "linked": is_linked,
            "fails_since_s": None if is_linked else trouble.since_s,
            "failed": 0 if is_linked else trouble.times,
            "why": "" if is_linked else trouble.why,
        }


class Neighbours:
    """Keeps every known neighbour dialled.

    Args:
        own_id: this gateway's id.
        dial: connects, calls what it is given with the neighbour's id when there is a link, and
            returns when that has ended.
        is_linked: whether there is a link to a gateway id.
        link_ends: returns when a link to a gateway id has ended, or there is none.
        jitter: draws how long to wait before the next try; None for one of its own.

    """

    def __init__(
        self,
        own_id: str,
        dial: Callable[[Address, Callable[[str], None]], Awaitable[None]],
        is_linked: Callable[[str], bool],
        link_ends: Callable[[str], Awaitable[None]],
        jitter: random.Random | None = None,
    ) -> None:
        self._own_id = own_id
        self._dial = dial
        self._is_linked = is_linked
        self._link_ends = link_ends
        self._kept: dict[Address, _Kept] = {}
        self._unlisted: set[Address] = set()
        self._jitter = random.Random() if jitter is None else jitter
        self._lines = RateLimit(STRANGERS_PER_S, STRANGERS_AT_ONCE)
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self.counters = DialCounts()

    def add_static(self, address: Address) -> None:
        """Dial this neighbour until it is removed."""
        self._keep(address, Source.STATIC, None, 0.0)
        self._kept[address].source = Source.STATIC

    def add_discovered(self, address: Address, peer_id: str) -> None:
        """Dial a neighbour that announced itself, with the tree's key as its witness."""
        if not self._is_linked(peer_id):
            self._keep(address, Source.FOUND, peer_id, self._turn(peer_id))

    def add_met(self, address: Address, peer_id: str) -> None:
        """Dial a neighbour back that dialled, once its link has ended (B1)."""
        self._keep(address, Source.FOUND, peer_id, LINK_ENDED_S)
        if (kept := self._kept.get(address)) is not None:
            kept.met_id = peer_id  # for status: it is dialled all the same, and may be another

    def remove_met(self, address: Address) -> None:
        """Do not dial a neighbour back that has ended its link itself."""
        self._remove(address, Source.FOUND)

    def add_listed(self, address: Address, peer_id: str) -> None:
        """Dial what DNS-SD lists, until `remove_listed`."""
        self._keep(address, Source.LISTED, peer_id, self._turn(peer_id))

    def add_substitute(self, address: Address, peer_id: str) -> None:
        """Dial a gateway in place of static neighbours, until `remove_substitute`."""
        self._keep(address, Source.SUBSTITUTE, peer_id, 0.0)

    def remove_substitute(self, address: Address) -> None:
        """Dial it no longer, and end the link that came of it."""
        self._remove(address, Source.SUBSTITUTE)

    def is_static(self, address: Address) -> bool:
        """Return whether an address is a static neighbour's."""
        kept = self._kept.get(address)
        return kept is not None and kept.source is Source.STATIC

    @property
    def has_static_link(self) -> bool | None:
        """Return whether a static neighbour is linked; None if there is no such neighbour."""
        static = [kept for kept in self._kept.values() if kept.source is Source.STATIC]
        if not static:
            return None
        return any(kept.peer_id is not None and self._is_linked(kept.peer_id) for kept in static)

    def remove_static(self, address: Address) -> None:
        """Dial this neighbour no longer, and end the link that came of it."""
        self._remove(address, Source.STATIC)

    def remove_listed(self, address: Address) -> None:
        """Dial it no longer; a link that there is stays until it ends by itself."""
        kept = self._kept.get(address)
        if kept is not None and kept.source is Source.LISTED:
            if kept.waits:
                self._forget(address)
            else:
                self._unlisted.add(address)

    def status(self) -> dict[str, Any]:
        """Counters, how many addresses there are of each source, and who is dialled.

        ``addresses`` has of each whether it is linked; where it is not, since when dialling it
        fails (on the wall clock, None if it does not yet), how often it has, and why.
        """
        sources = [kept.source for kept in self._kept.values()]
        addresses = [
            kept.as_json(
                address, is_linked=kept.known_id is not None and self._is_linked(kept.known_id)
            )
            for address, kept in self._kept.items()
        ]
        addresses.sort(key=lambda one: (one["linked"], not one["failed"]))
        return (
            asdict(self.counters)
            | {one.value: sources.count(one) for one in Source}
            | {"addresses": addresses[:MAX_TOLD]}
        )

    async def stop(self) -> None:
        """End all dialling; links in use are the caller's."""
        tasks = [kept.task for kept in self._kept.values() if kept.task is not None]
        self._kept.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _turn(self, peer_id: str) -> float:
        return DIAL_BACK_S if self._own_id > peer_id else 0.0

    def _keep(self, address: Address, source: Source, peer_id: str | None, wait_s: float) -> None:
        self._unlisted.discard(address)
        if address in self._kept:
            return
        if source is not Source.STATIC:
            others = sum(kept.source is source for kept in self._kept.values())
            if others >= (MAX_FOUND if source is Source.FOUND else MAX_LISTED):
                self.counters.over_limit += 1
                return
        kept = self._kept[address] = _Kept(source, peer_id)
        dialling = self._dial_for_ever(address, kept, wait_s)
        kept.task = task = asyncio.create_task(dialling, name=f"dial {address}")
        task.add_done_callback(lambda _: self._ended(address, task))

    def _ended(self, address: Address, task: asyncio.Task[None]) -> None:
        kept = self._kept.get(address)
        if kept is not None and kept.task is task:
            del self._kept[address]
            self._unlisted.discard(address)

    def _remove(self, address: Address, source: Source) -> None:
        kept = self._kept.get(address)
        if kept is not None and kept.source is source:
            self._forget(address)

    def _forget(self, address: Address) -> None:
        kept = self._kept.pop(address)
        task, kept.task = kept.task, None  # its frame holds `kept`, and is held by its end
        if task is not None:
            task.cancel()

    async def _dial_for_ever(self, address: Address, kept: _Kept, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(wait_s)
        retry_s = FIRST_RETRY_S
        last_success = loop.time()
        while address not in self._unlisted:
            began = loop.time()
            if kept.source is Source.FOUND and began - last_success > GIVE_UP_S:
                self.counters.given_up += 1
                return
            if kept.peer_id is not None and self._is_linked(kept.peer_id):
                retry_s = LINK_ENDED_S
                kept.linked(kept.peer_id)
                kept.waits = True
                await self._link_ends(kept.peer_id)
                kept.waits = False
                last_success = loop.time()
            else:
                retry_s = min(retry_s * 2, LAST_RETRY_S)
                try:
                    self.counters.dialled += 1
                    await self._dial(address, kept.linked)
                    last_success = loop.time()
                    if last_success - began > STEADY_S:
                        retry_s = FIRST_RETRY_S
                except SelfDialError as itself:
                    kept.trouble.failed(reason(itself), began, time.time())
                    if not self.counters.itself:
                        _log.warning("%s is this gateway itself", address)
                    self.counters.itself += 1
                    retry_s = ITSELF_RETRY_S
                except NoPlaceError as no_place:
                    retry_s = self._without_place(address, kept, no_place, retry_s)
                except (OSError, ProtocolError) as error:
                    patience_s = 0.0 if isinstance(error, ProtocolError) else GRACE_S
                    self._failed(address, kept, error, patience_s)
                except Exception as failure:  # whatever it was, it is dialled for ever
                    self._failures.failed("attempt to link", failure, str(address))
                    kept.trouble.failed(repr(failure), began, time.time())
            await asyncio.sleep(retry_s * self._jitter.uniform(0.5, 1.5))

    def _without_place(
        self, address: Address, kept: _Kept, error: NoPlaceError, retry_s: float
    ) -> float:
        """Return when to try again a gateway of this tree, with which there is no link now."""
        if error.refusal is Refusal.DUPLICATE:
            kept.linked(error.peer_id)
            return retry_s
        kept.peer_id = error.peer_id
        self._failed(address, kept, error, OTHER_LIFE_PATIENCE_S)
        return OTHER_LIFE_RETRY_S if kept.trouble.is_said else retry_s

    def _failed(
        self, address: Address, kept: _Kept, error: OSError | ProtocolError, patience_s: float
    ) -> None:
        self.counters.failed += 1
        why, now_s, trouble = reason(error), asyncio.get_running_loop().time(), kept.trouble
        is_due = trouble.failed(why, now_s, time.time(), patience_s)
        if is_due and (kept.source is Source.STATIC or self._lines.allow("", now_s)):
            _log.warning(
                "no link to %s (%s): %s; %d attempts failed",
                address,
                kept.peer_id or kept.source.value,
                why,
                trouble.times,
            )
        else:
            _log.debug("no link to %s: %s", address, why)
