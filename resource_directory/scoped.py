"""Look-ups in the directories of several gateways: what is asked of which, and what is told.

``scope`` says whose directories are looked at; ``gw-domain``, ``gw-group`` and ``gw`` leave those
of one domain, group or gateway. All else is asked of each of them, the sectors of endpoints
(``d``) among it. What each one answers says where it lives (``gw``), and its own resources get a
path that works where it was asked.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from light_dataclasses import dataclass
from resource_directory.errors import InvalidParameterError
from resource_directory.index import Criterion
from resource_directory.link_format import WebLink, serialise
from resource_directory.query import LookupQuery
from resource_directory.search import MAX_CHARACTERS

GATEWAY = "gw"
"""The attribute that says in which gateway's directory a link stands."""
DOMAIN, GROUP = "gw-domain", "gw-group"
"""Parameters that leave the directories of one domain or group; ``-`` stands for none."""
STALE = "stale"
"""The attribute that says how many seconds ago that gateway told it, which does not answer now."""
_OF_GATEWAYS = ("scope", DOMAIN, GROUP, GATEWAY)
_FORMER = {"d=-": DOMAIN, "gp=-": GROUP}
"""Words that once meant gateways of no domain or group; no sector is called that."""
_PORTS = {"coap": 5683, "coaps": 5684}
_LOOPBACK = ("127.0.0.1", "::1")
"""Hosts that are a gateway's own, whatever address others reach it at."""


class LookUpScope(enum.Enum):
    """The part of the fleet whose directories a look-up covers."""

    OWN = "own"
    GROUP = "group"
    DOMAIN = "domain"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ScopedQuery:
    """A look-up in several directories.

    Attributes:
        scope: whose.
        domain: only those of this domain; None for any.
        group: only those of this group; None for any.
        gateway: only that of this gateway; None for any.
        asked: the parameters that each of them is asked with.
        criteria: what they say.
        page: which part of the answer is wanted.
        count: length of a part; None for all.

    """

    scope: LookUpScope
    domain: str | None
    group: str | None
    gateway: str | None
    asked: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    page: int = 0
    count: int | None = None

    @classmethod
    def parse(cls, parameters: Iterable[str]) -> ScopedQuery | None:
        """Read the parameters of a look-up; None if it is one of the own directory alone.

        Raises:
            InvalidParameterError: one is wrong, or comes twice; see `LookupQuery.parse` too.

        """
        own: dict[str, str] = {}
        asked, paging = list[str](), list[str]()
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name in _OF_GATEWAYS:
                if name in own:
                    raise InvalidParameterError("given twice", name)
                own[name] = value
            else:
                (paging if name in ("page", "count") else asked).append(parameter)
        if not own:
            return None
        for former in asked:
            if former in _FORMER:
                why = f"{former} is about sectors of endpoints; for gateways of none ask"
                raise InvalidParameterError(why, f"{_FORMER[former]}=-")
        try:
            scope = LookUpScope(own.get("scope", LookUpScope.ALL.value))
        except ValueError:
            raise InvalidParameterError(
                "scope is no own, group, domain or all", own["scope"]
            ) from None
        if scope is LookUpScope.OWN and own.keys() == {"scope"}:
            return None
        query = LookupQuery.parse([*asked, *paging])
        return cls(
            scope,
            own.get(DOMAIN),
            own.get(GROUP),
            own.get(GATEWAY),
            tuple(asked),
            query.criteria,
            query.page,
            query.count,
        )

    @property
    def wanted(self) -> int | None:
        """So many links, from the first one on, hold the part that is wanted; None for all."""
        return None if self.count is None else (self.page + 1) * self.count

    def written(self, links: Sequence[WebLink]) -> str:
        """Return the part that is wanted, as link format.

        Raises:
            InvalidParameterError: it is too much for one answer.

        """
        if self.count is not None:
            links = links[self.page * self.count : (self.page + 1) * self.count]
        text = serialise(links)
        if len(text) > MAX_CHARACTERS:
            raise InvalidParameterError("too many links for one answer: ask with count and page")
        return text


def without_scope(parameters: Iterable[str]) -> tuple[str, ...]:
    """Return a look-up's parameters as the own directory knows them."""
    return tuple(one for one in parameters if one.partition("=")[0] != "scope")


@dataclass(frozen=True, slots=True)
class ServingGateway:
    """A gateway whose directory is looked at.

    Attributes:
        id: its id.
        way: what a path of its own begins with where the look-up was asked; empty for that one.
        host: where it serves CoAP.
        ports: its ports of CoAP, by scheme.

    """

    id: str
    way: str
    host: str
    ports: tuple[tuple[str, int], ...]

    def located(self, link: WebLink, stale_s: int | None = None) -> WebLink:
        """Return a link of its directory, as others are told of it.

        Args:
            link: as it tells it itself.
            stale_s: so old it is; None if it was told just now.

        """
        attributes = [
            (name, self._from_here(value) if name == "anchor" and value else value)
            for name, value in link.attributes
            if name not in (GATEWAY, STALE)
        ]
        attributes.append((GATEWAY, self.id))
        if stale_s is not None:
            attributes.append((STALE, str(stale_s)))
        return WebLink(self._from_here(link.href), tuple(attributes))

    def _from_here(self, reference: str) -> str:
        if reference.startswith("/"):
            return self.way + reference
        try:
            parts = urlsplit(reference)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            return reference
        is_own_host = parts.hostname in _LOOPBACK or parts.hostname == self.host.lower()
        if (parts.scheme, port) not in self.ports or not is_own_host:
            return reference
        rest = parts.path + (f"?{parts.query}" if parts.query else "")
        return self.way + (rest or "/")
