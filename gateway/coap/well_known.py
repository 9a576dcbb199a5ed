"""``/.well-known/core`` (RFC 6690, section 4), rendered once until the site changes."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, Final

from aiocoap import resource
from aiocoap.numbers.contentformat import ContentFormat
from aiocoap.util.linkformat import LinkFormat

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from gateway.coap.representations import tagged
from gateway.coap.responders import RespondTo
from resource_directory.uri import normalised

PATH: Final = (b".well-known", b"core")
KEPT_MAX: Final = 256
KEPT_BYTES_MAX: Final = 16 << 10
"""Of one filtered answer that is kept for the next who asks the same."""
_LISTS: Final = frozenset({"rt", "if", "rel", "rev", "ct"})
"""Attributes whose value is several, separated by spaces (RFC 6690, section 2)."""
_LINK_FORMAT: Final = bytes([int(ContentFormat.LINKFORMAT)])
_ACCEPTS: Final = (option_numbers.ACCEPT, _LINK_FORMAT)


class CountedSite(resource.Site):  # type: ignore[misc]  # aiocoap is untyped
    """A site that counts its changes.

    Attributes:
        changes: how often a resource was added or removed.

    """

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def add_resource(self, path: Sequence[str], added: Any) -> None:
        """Add a resource, and count the change."""
        super().add_resource(path, added)
        self.changes += 1

    def touch(self) -> None:
        """Count a change of the links of resources that stay."""
        self.changes += 1

    def remove_resource(self, path: Sequence[str]) -> None:
        """Remove a resource, and count the change."""
        super().remove_resource(path)
        self.changes += 1


class WellKnownCore:
    """Answers from a site's links; what is no plain GET of link format is left to the resource.

    Args:
        site: whose links they are. A link whose attributes change while it stands on the site
            is told as it was.

    """

    def __init__(self, site: CountedSite) -> None:
        self.segments = frozenset(PATH[:1])
        self._site = site
        self._seen = -1
        self._links: list[Any] = []
        self._all = _response([])
        self._index: list[tuple[str, str, int]] = []
        self._kept: dict[tuple[Option, ...], CoapResponse] = {}

    def answer(self, request: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse | None:
        """Return the links that a GET asks for; None if the resource has to answer."""
        if request.code != codes.GET or tuple(request.values(option_numbers.URI_PATH)) != PATH:
            return None
        if self._seen != self._site.changes:
            self._look()
        found = self._kept.get(request.options)
        if found is None:
            found = self._render(request)
            if found is not None and len(found.payload) <= KEPT_BYTES_MAX:
                if len(self._kept) >= KEPT_MAX:
                    self._kept.clear()
                self._kept[request.options] = found
        return found

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        """Return False: it can't be observed."""
        return False

    def ended(self, _exchange: int) -> None:
        """Do nothing: the links are not observed here."""

    def _render(self, request: CoapRequest) -> CoapResponse | None:
        queries: list[str] = []
        for number, value in request.options:
            if number == option_numbers.URI_QUERY:
                try:
                    queries.append(value.decode())
                except UnicodeDecodeError:
                    return None
            elif number & 1 and number != option_numbers.URI_PATH and (number, value) != _ACCEPTS:
                return None
        numbers = None
        for query in queries:
            name, is_filter, wanted = query.partition("=")
            if is_filter:
                matching = self._matching(name, wanted)
                numbers = matching if numbers is None else numbers & matching
        if numbers is None:
            return self._all
        return _response([self._links[number] for number in sorted(numbers)])

    def _matching(self, name: str, value: str) -> set[int]:
        """Return the links with an attribute, or with one of the prefix before a ``*``."""
        prefix = value.removesuffix("*")
        if name == "href":  # equivalent ones are the same (RFC 3986, section 6.2)
            is_prefix = prefix != value
            prefix = normalised(prefix, is_prefix=is_prefix)
            value = f"{prefix}*" if is_prefix else prefix
        found: set[int] = set()
        for at in range(bisect.bisect_left(self._index, (name, prefix)), len(self._index)):
            attribute, has, number = self._index[at]
            if attribute != name or not (
                has.startswith(prefix) if prefix != value else has == value
            ):
                break
            found.add(number)
        return found

    def _look(self) -> None:
        self._seen = self._site.changes
        self._kept.clear()
        self._links = list(self._site.get_resources_as_linkheader().links)
        self._all = _response(self._links)
        self._index = sorted(
            (name, one, number)
            for number, link in enumerate(self._links)
            for name, value in [("href", normalised(link.href)), *link.attr_pairs]
            for one in ((value or "").split(" ") if name in _LISTS else [value or ""])
        )


def _response(links: list[Any]) -> CoapResponse:
    payload = str(LinkFormat(links)).encode()
    form = (option_numbers.CONTENT_FORMAT, _LINK_FORMAT)
    return tagged(CoapResponse(codes.CONTENT, (form,), payload))
