"""A gateway of a simulated fleet whose heads keep digests of all directories below them.

The cores are those of production, as in `gateway.tools.directory_simulation.node`: only who is
asked is another. Digests and look-ups go as requests to one gateway, over the same links.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Final

import msgpack

from benchmarks.digest_copies import Copies, Feed, Mark
from benchmarks.digest_keepers import Keepers
from gateway.coap.fleet_directory.kept import STALE_S
from gateway.coap.fleet_directory.partial import partial_link
from gateway.coap.fleet_directory.targets import PAGE_LINKS, links_of, serving
from gateway.tools.directory_simulation.node import DirectoryNode
from resource_directory.digest import DirectoryDigest
from resource_directory.exchange import GET, LINK_FORMAT, DirectoryAnswer, DirectoryRequest
from resource_directory.link_format import WebLink, serialise
from resource_directory.registration import Registration
from resource_directory.scoped import LookUpScope, ScopedQuery
from resource_directory.service import RESOURCES
from tree_handler.members.hierarchy import ANY
from tree_handler.members.place import NONE
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.simulation.heads import HeadedGateway

MARKS: Final = ("digests", "marks")
PUSHED: Final = ("digests",)
KEPT: Final = ("digests", "found")
AGAIN_S: Final = 1.0
"""So long after a keeper has not answered it is sent something again."""
CONTENT, CHANGED = 0x45, 0x44
_PARTIAL = partial_link(RESOURCES, ["x"])[0].get("rt")


class _Noted(DirectoryDigest):
    """Notes any change of the directory, also what goes; records carry nothing of it."""

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """Note that there is news."""
        self.is_news = True

    def take(self) -> bytes:
        """Forget the news; return an empty digest, since records carry none."""
        self.is_news = False
        return b""


class DigestNode(DirectoryNode):
    """A `DirectoryNode` whose digests go up, and which asks heads."""

    def begin(self, gateway: HeadedGateway) -> None:
        self._digest = _Noted()
        self.copies = Copies()
        self._feeds: dict[str, Feed] = {}
        self._seen: tuple[object, Keepers] | None = None
        self._since: dict[str, float] = {}
        self._push = gateway.timer(self._push_due)
        super().begin(gateway)
        self._digest.is_news = True  # a keeper knows nothing of this life

    def tell(self, *, epoch: int | None = None, version: int | None = None) -> None:
        """Tell all of a new life, in a record without a digest; else keepers what changed."""
        if epoch is not None:
            super().tell(epoch=epoch, version=version)
            return
        self._digest.take()
        own = self.gateway.gateway_id
        if self.record.capability > 0 and self.copies.tell(own, self.record.epoch, self._links()):
            self._changed({own})
        self._set_timer()

    def moved(self) -> None:
        """Send again as `DirectoryNode` does, and note since when members are suspected."""
        super().moved()
        suspects = self.members.suspects
        self._since = {one: self._since.get(one, self.gateway.now) for one in suspects}
        self._push.set(self.gateway.now)

    def keepers(self) -> Keepers:
        """As this gateway sees them."""
        hierarchy = self.members.hierarchy()
        if self._seen is None or self._seen[0] is not hierarchy:
            self._seen = hierarchy, Keepers.seen_by(self.members)
            self._feed_anew()
        return self._seen[1]

    def keeps(self) -> set[str]:
        """Return the gateways whose digests it is to keep, less its own."""
        keepers, own = self.keepers(), self.gateway.gateway_id
        return {
            one.id
            for one in self.members
            if one.id != own and any(own in level for level in keepers.above(one.place))
        }

    def _links(self) -> dict[str, str]:
        found = {}
        for one in self.registry.registrations():
            asked = DirectoryRequest(GET, RESOURCES, (f"ep={one.endpoint}",), accept=LINK_FORMAT)
            answer = self.service.answer(asked, self.gateway.now)
            assert isinstance(answer, DirectoryAnswer)
            found[one.endpoint] = answer.payload.decode()
        return found

    # -- digests go up ---------------------------------------------------------------------------

    def _changed(self, origins: Iterable[str]) -> None:
        keepers, own = self.keepers(), self.gateway.gateway_id
        for origin in origins:
            record = self.members.get(origin)
            if record is not None:
                for target in keepers.fed_by(own, record):
                    self._feed(target).pending.add(origin)
        self._push.set(self.gateway.now)

    def _feed(self, target: str) -> Feed:
        feed = self._feeds.get(target)
        epoch = self.gateway.locator.epoch_of(target) or 0
        if feed is None or (epoch and feed.epoch and epoch != feed.epoch):
            pending = {*feed.pending, *(feed.known or ())} if feed else set[str]()
            feed = self._feeds[target] = Feed(epoch, pending=pending)
        feed.epoch = epoch or feed.epoch
        return feed

    def _feed_anew(self) -> None:
        assert self._seen is not None
        due: dict[str, set[str]] = {}
        for origin in self.copies.origins():
            record = self.members.get(origin)
            if record is not None:
                for target in self._seen[1].fed_by(self.gateway.gateway_id, record):
                    due.setdefault(target, set()).add(origin)
        self._feeds = {one: feed for one, feed in self._feeds.items() if one in due}
        for target, origins in due.items():
            feed = self._feed(target)
            known = feed.known or {}
            feed.pending = {one for one in origins if known.get(one) != self.copies.mark(one)}

    def _push_due(self, now: float) -> None:
        self.keepers()
        again = float("inf")
        for target in sorted(self._feeds):
            feed = self._feed(target)
            if feed.is_asked or not feed.pending:
                continue
            if self.gateway.locator.epoch_of(target) is None and feed.not_before <= now:
                feed.not_before = now + AGAIN_S
            if feed.not_before > now:
                again = min(again, feed.not_before)
                continue
            feed.is_asked = True
            own = {self.gateway.gateway_id}
            if feed.known is None and not feed.pending <= own:
                self._ask_marks(target, feed)
            else:
                self._send_to(target, feed)
        self._push.set(again)

    def _ask_marks(self, target: str, feed: Feed) -> None:
        marks = {one: self.copies.mark(one) for one in sorted(feed.pending)}
        payload = msgpack.packb([[one, *mark] for one, mark in marks.items()])
        told = partial(self._marks_came, feed, marks)
        self.ask(target, ResourceRequest("FETCH", MARKS, payload=payload), told)

    def _marks_came(
        self, feed: Feed, marks: dict[str, Mark], response: ResourceResponse | None
    ) -> None:
        if response is not None and response.is_success:
            feed.took(marks, msgpack.unpackb(response.payload), self.copies.mark)
        self._over(feed, response)

    def _send_to(self, target: str, feed: Feed) -> None:
        payload, sent = feed.push(self.copies)
        told = partial(self._taken, feed, sent)
        self.ask(target, ResourceRequest("PUT", PUSHED, payload=payload), told)

    def _taken(self, feed: Feed, sent: dict[str, Mark], response: ResourceResponse | None) -> None:
        if response is not None and response.is_success:
            feed.took(sent, msgpack.unpackb(response.payload), self.copies.mark)
        self._over(feed, response)

    def _over(self, feed: Feed, response: ResourceResponse | None) -> None:
        now = self.gateway.now
        feed.is_asked = False
        if response is None or not response.is_success:
            feed.not_before = now + AGAIN_S
        self._push.set(now)

    # -- what keepers answer ---------------------------------------------------------------------

    def execute(self, request: ResourceRequest) -> ResourceResponse:
        """Answer for the digests that this gateway keeps; do all else as `DirectoryNode` does."""
        if request.path == MARKS:
            marks = msgpack.unpackb(request.payload)
            lacks = [one for one, *mark in marks if self.copies.mark(one) < tuple(mark)]
            return ResourceResponse(CONTENT, msgpack.packb(lacks))
        if request.path == PUSHED:
            news, lacking = self.copies.take_packed(request.payload)
            self._changed(news)
            return ResourceResponse(CHANGED, msgpack.packb(sorted(lacking)))
        if request.path == KEPT:
            domain, group, page, *asked = request.query
            links = self._kept(domain, group, tuple(asked))
            at = int(page) * PAGE_LINKS
            text = serialise(links[at : at + PAGE_LINKS])
            return ResourceResponse(CONTENT, text.encode(), LINK_FORMAT)
        return super().execute(request)

    def _kept(self, domain: str, group: str, asked: tuple[str, ...]) -> list[WebLink]:
        query = ScopedQuery.parse(["scope=all", *asked])
        assert query is not None
        found, missing = list[WebLink](), list[str]()
        for record in self.members.find(domain, group, ANY):
            if record.capability == 0:
                continue
            age_s = None
            if record.id in self._since:
                age_s = int(self.gateway.now - self._since[record.id])
            links = self.copies.found(record.id, query.criteria)
            if links is None or (age_s is not None and age_s > STALE_S):
                missing.append(record.id)
                continue
            served = serving(record, "")
            found.extend(served.located(link, age_s) for link in links)
        return [*found, *partial_link(RESOURCES, missing)]

    # -- who looks up asks the nearest keeper ----------------------------------------------------

    def look_up(
        self, parameters: list[str], told: Callable[[str], None], host: Hashable = ""
    ) -> bool:
        """Ask the nearest keeper; return whether the look-up goes beyond the own directory."""
        query = ScopedQuery.parse(parameters)
        if query is None:
            return False
        self._one_of(query, self._order(query), [], told)
        return True

    def _order(self, query: ScopedQuery) -> list[str]:
        """List the keepers to ask: itself first, then narrow scopes, heads before substitutes."""
        place = self.record.place
        levels = self.keepers().above(place)
        if query.scope is LookUpScope.ALL:
            levels = levels[-1:]
        elif query.scope is LookUpScope.DOMAIN or not place.group:
            levels = levels[-2:] if place.domain else levels
        names = list(dict.fromkeys(name for level in levels for name in level))
        own = self.gateway.gateway_id
        return sorted(names, key=lambda name: name != own)

    def _one_of(
        self,
        query: ScopedQuery,
        names: list[str],
        best: list[WebLink],
        told: Callable[[str], None],
    ) -> None:
        if not names:
            told(serialise(best))
            return
        place = self.record.place
        narrow = query.scope is not LookUpScope.ALL
        domain = (place.domain or NONE) if narrow else ANY
        group = (place.group or NONE) if query.scope is LookUpScope.GROUP else ANY
        links: list[WebLink] = []

        def ask(page: int) -> None:
            asked = (domain, group, str(page), *query.asked)
            self.ask(names[0], ResourceRequest("GET", KEPT, asked), lambda one: came(one, page))

        def came(response: ResourceResponse | None, page: int) -> None:
            part = None if response is None else links_of(response)
            if part is None:
                self._one_of(query, names[1:], best, told)
                return
            links.extend(part)
            if len(part) == PAGE_LINKS:
                ask(page + 1)
            elif _is_whole(links):
                told(serialise(links))
            else:
                more = links if len(links) > len(best) else best
                self._one_of(query, names[1:], more, told)

        ask(0)


def _is_whole(links: list[WebLink]) -> bool:
    return not any(link.get("rt") == _PARTIAL for link in links[-1:])
