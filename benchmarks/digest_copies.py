"""Copies of gateways' directories at their keepers, and how they come there (sans-I/O).

What goes from one gateway to another is a list of entries: what changed since the version that the
receiver has, or the whole. The receiver says of which origins it lacks what came before, and is
sent the whole of these. A new keeper is first asked what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from resource_directory.index import Criterion
from resource_directory.link_format import WebLink, parse

PUSH_BYTES: Final = 32 << 10
"""Of entries in one message, and one entry more."""
Mark = tuple[int, int]
"""Boot epoch of an origin, and the version of its digest."""
NEVER: Final[Mark] = (0, 0)


@dataclass(slots=True)
class Copy:
    """The copy of one directory's links.

    Attributes:
        mark: its epoch and version.
        links: in RFC 6690 form by endpoint, as the origin tells them.
        gone: endpoints that the last change took away.
        came: links that the last change brought, by endpoint.
        base: the version before it; 0 if it is not known.

    """

    mark: Mark
    links: dict[str, str]
    gone: list[str] = field(default_factory=list)
    came: dict[str, str] = field(default_factory=dict)
    base: int = 0

    def entry(self, origin: str, known: Mark) -> list[Any]:
        """Return the change since `known`, or all links where a change would not do."""
        epoch, version = self.mark
        if self.base and known == (epoch, self.base):
            return [origin, epoch, self.base, version, self.gone, self.came]
        return [origin, epoch, 0, version, [], self.links]


class Copies:
    """All copies at one gateway, its own digest among them."""

    def __init__(self) -> None:
        self._of: dict[str, Copy] = {}
        self._read: dict[str, list[WebLink]] = {}

    def mark(self, origin: str) -> Mark:
        """Return the mark of an origin's copy; `NEVER` if there is none."""
        copy = self._of.get(origin)
        return NEVER if copy is None else copy.mark

    def entry(self, origin: str, known: Mark) -> list[Any]:
        """Return the entry of an origin's copy, as `Copy.entry` does."""
        return self._of[origin].entry(origin, known)

    def origins(self) -> list[str]:
        """Return the origins of which there is a copy."""
        return list(self._of)

    def tell(self, origin: str, epoch: int, links: dict[str, str]) -> bool:
        """Take what the own directory has now; tell whether that is news."""
        old = self._of.get(origin)
        if old is None or old.mark[0] != epoch:
            self._of[origin] = Copy((epoch, 1), links)
        elif old.links != links:
            gone = [name for name in old.links if name not in links]
            came = {name: text for name, text in links.items() if old.links.get(name) != text}
            version = old.mark[1]
            self._of[origin] = Copy((epoch, version + 1), links, gone, came, version)
        else:
            return False
        self._read.pop(origin, None)
        return True

    def take_packed(self, payload: bytes) -> tuple[set[str], set[str]]:
        """Take a message; the origins of which that was news, and those that are lacking."""
        news, lacking = set[str](), set[str]()
        for origin, epoch, base, version, gone, came in msgpack.unpackb(payload):
            known = self.mark(origin)
            if known >= (epoch, version):
                continue
            if base == 0:
                self._of[origin] = Copy((epoch, version), came)
            elif known == (epoch, base):
                links = {k: v for k, v in self._of[origin].links.items() if k not in set(gone)}
                self._of[origin] = Copy((epoch, version), {**links, **came}, gone, came, base)
            else:
                lacking.add(origin)
                continue
            self._read.pop(origin, None)
            news.add(origin)
        return news, lacking

    def found(self, origin: str, criteria: Iterable[Criterion]) -> list[WebLink] | None:
        """Return the links of a directory that meet all criteria; None if there is no copy."""
        if origin not in self._of:
            return None
        links = self._read.get(origin)
        if links is None:
            text = ",".join(self._of[origin].links.values())
            links = self._read[origin] = parse(text.encode()) if text else []
        wanted = tuple(criteria)
        return [
            link
            for link in links
            if all(one.matches([(n, v or "") for n, v in link.attributes]) for one in wanted)
        ]

    def weighed(self, origins: Iterable[str]) -> tuple[int, list[object]]:
        """Return characters of the copies of these, and all that they are."""
        kept = [self._of[one] for one in origins if one in self._of]
        return sum(len(text) for one in kept for text in one.links.values()), list(kept)


@dataclass(slots=True)
class Feed:
    """The digests that one keeper has, and those that it is still to be sent.

    Attributes:
        epoch: of the keeper's life.
        known: marks that it has said to have, by origin; None before it was asked.
        pending: origins of which it lacks something.
        is_asked: an answer of it is waited for.
        not_before: the time from which on it may be asked again, seconds.

    """

    epoch: int
    known: dict[str, Mark] | None = None
    pending: set[str] = field(default_factory=set)
    is_asked: bool = False
    not_before: float = 0.0

    def push(self, copies: Copies) -> tuple[bytes, dict[str, Mark]]:
        """Return a message for it, and what it has when it took it."""
        known = self.known or {}
        entries, sent, octets = list[bytes](), dict[str, Mark](), 0
        for origin in sorted(self.pending):
            if octets > PUSH_BYTES:
                break
            data: bytes = msgpack.packb(copies.entry(origin, known.get(origin, NEVER)))
            octets += len(data)
            entries.append(data)
            sent[origin] = copies.mark(origin)
        header: bytes = msgpack.Packer().pack_array_header(len(entries))
        return header + b"".join(entries), sent

    def took(
        self, sent: dict[str, Mark], lacking: Iterable[str], mark: Callable[[str], Mark]
    ) -> None:
        """It has taken a message, less what it lacks."""
        if self.known is None:
            self.known = {}
        self.known.update(sent)
        for origin in lacking:
            self.known.pop(origin, None)
        self.pending = {one for one in self.pending if self.known.get(one) != mark(one)}
