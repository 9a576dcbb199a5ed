"""One life of a gateway's directory and of its requests to others, in a simulated fleet.

The cores are those of production: registry, digest, look-ups in many directories, queries and
their seals, the gathering of many answers, locator and direct messages. Only what carries them is
modelled: a record goes to all who have not seen it, and to a neighbour when a link starts to
forward, as replication has it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, Protocol

from gateway.coap.fleet_directory.searches import DirectorySearches
from gateway.coap.fleet_directory.targets import LookedUp, links_of, targets
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from light_dataclasses import dataclass
from resource_directory.digest import DigestTimes, DirectoryDigest
from resource_directory.exchange import (
    GET,
    LINK_FORMAT,
    DirectoryAnswer,
    DirectoryRequest,
    SlowLookUp,
)
from resource_directory.link_format import WebLink
from resource_directory.registration import Registration
from resource_directory.registry import Registry
from resource_directory.scoped import ScopedQuery
from resource_directory.service import RESOURCES, DirectoryService
from tree_handler.errors import ProtocolError
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.remote.gather import AnswerGathering
from tree_handler.remote.limits import DEFAULT_LIMITS
from tree_handler.remote.query import (
    Execute,
    Publication,
    QueryAnswer,
    RemoteQueries,
    TimedOut,
    TooManyError,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import RemoteSeals
from tree_handler.routing.direct import Direct, DirectMessage
from tree_handler.simulation.heads import HeadedGateway
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

DEADLINE_S: Final = 5.0
TURN_S: Final = 0.001
"""The time after which a look-up goes on that need not wait for anybody."""
ACTUATOR: Final = ("actuator",)
DEVICE: Final = "coap://192.0.2.1"
"""The base of a device that serves its resources itself."""
OWN: Final = "coap://127.0.0.1"
"""The base of what a gateway serves, by its own address; others reach it by the tree."""
_COAP_PORT: Final = 5683
_TREE: Final = "model"
_NEVER: Final = (-1, -1)

OnSimulatedResponse = Callable[[ResourceResponse | None], None]
"""Takes an answer; None if none came in time."""


@dataclass(frozen=True, slots=True)
class _Direct:
    """A message for one gateway, on a link; what it is about is noted for the counts."""

    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Record:
    """A member's record, on a link; one object for all, which spares much memory."""

    record: MemberRecord
    octets: int


@dataclass(frozen=True, slots=True)
class _Marks:
    """A message that says which records a neighbour has."""

    marks: dict[str, tuple[int, int]]


class Surroundings(Protocol):
    """The world that one life of a gateway is in.

    Attributes:
        written: the bodies of all writes that were carried out.

    """

    written: set[bytes]

    def crossed(self, gateway_id: str, kind: str, octets: int) -> None:
        """Count a message that a gateway puts on a link."""

    def worked(self, gateway_id: str) -> None:
        """Count a request that a gateway executes."""

    def violated(self, invariant: int, what: str) -> None:
        """Note what should not be."""


class DirectoryNode:
    """A `Tenant` with a Resource Directory, for one life of a gateway.

    Args:
        world: what it is in.
        record: of itself, as its configuration has it.
        registrations: what its last life had registered.
        known: the records that its last life had.

    Attributes:
        gateway: in which it lives.
        registry: its directory.
        record: as it was told last.

    """

    def __init__(
        self,
        world: Surroundings,
        record: MemberRecord,
        registrations: list[Registration],
        known: list[MemberRecord],
    ) -> None:
        self.record = replace(record, coap_port=_COAP_PORT)
        self._world = world
        self._known = known
        self._registrations = registrations
        self._digest = DirectoryDigest()
        self._waiting: dict[str, OnSimulatedResponse] = {}
        self._tells: dict[int, Callable[[str], None]] = {}

    def begin(self, gateway: HeadedGateway) -> None:
        """Start the directory in a gateway, with the registrations of its last life."""
        self.gateway = gateway
        own, epoch, now = gateway.gateway_id, gateway.boot_epoch, gateway.now
        self.registry = Registry(f"/rd/{epoch}-", listeners=(self._digest,))
        for one in self._registrations:
            self.registry.restore(one)
        self.service = DirectoryService(self.registry)
        self.direct = Direct(own, gateway.locator)
        seals = RemoteSeals(ModelSigner(own), ModelRing(), _TREE)
        self.queries = RemoteQueries(own, epoch, seals=seals, way_to=gateway.locator.way_to)
        self.searches = DirectorySearches(self._way_to, lambda: self.members.suspects)
        self._times = DigestTimes(now)
        self._timer = gateway.timer(self._due)
        self._turn = gateway.timer(self._go_on)
        for record in self._known:
            self.members.update(record)
        self.tell(epoch=epoch, version=1)

    @property
    def members(self) -> Membership:
        """All that it knows."""
        return self.gateway.members

    def _way_to(self, record: MemberRecord) -> str:
        own = record.id == self.gateway.gateway_id
        return "" if own else f"/{QUERY_SEGMENT}/{record.prefix}"

    # -- records ---------------------------------------------------------------------------------

    def tell(self, *, epoch: int | None = None, version: int | None = None) -> None:
        """Tell all a record of itself, with what its directory has now."""
        self.record = replace(
            self.record,
            epoch=self.record.epoch if epoch is None else epoch,
            version=self.record.version + 1 if version is None else version,
            offers=self._digest.take(),
        )
        self.members.update(self.record)
        data = self.record.encode()
        self._pass_on(_Record(MemberRecord.decode(data), len(data)), None)
        self._set_timer()

    def move(self, place: Place) -> None:
        """Stand in another domain or group from now on."""
        self.record = replace(self.record, domain=place.domain, group=place.group)
        self.tell()

    def forwards(self, link: int) -> None:
        """Tell the neighbour which records are here."""
        marks = {record.id: (record.epoch, record.version) for record in self.members}
        self._say(link, "marks", _Marks(marks), 16 * len(marks))

    def _pass_on(self, news: _Record, came_by: int | None) -> None:
        for link in self.gateway.forwarding:
            if link != came_by:
                self._say(link, "record", news, news.octets)

    def _compare(self, link: int, marks: dict[str, tuple[int, int]]) -> None:
        for record in self.members:
            if (record.epoch, record.version) > marks.get(record.id, _NEVER):
                news = _Record(record, len(record.encode()))
                self._say(link, "record", news, news.octets)

    # -- messages --------------------------------------------------------------------------------

    def took(self, link: int, message: object) -> None:
        """Take a neighbour's record, marks, or message for one gateway."""
        match message:
            case _Marks(marks):
                self._compare(link, marks)
            case _Record(record):
                if self.members.update(record):
                    self._pass_on(message, link)
            case _Direct(kind, data):
                came = self.direct.receive(link, data)
                if isinstance(came, DirectMessage):
                    self._receive(came.topic, came.payload)
                elif came is not None:
                    self._say(came[0], kind, _Direct(kind, came[1]), len(came[1]))

    def heard(self, origin: str, body: Publication) -> None:
        """Take a flooded message for this gateway."""
        if body.receiver == self.gateway.gateway_id:
            self._receive(body.topic, body.payload)

    def moved(self) -> None:
        """Send again what waits for gateways that have moved."""
        for publication in self.queries.moved(self.gateway.now):
            self._send(publication)
        self._set_timer()

    def _say(self, link: int, kind: str, message: object, octets: int) -> None:
        self._world.crossed(self.gateway.gateway_id, kind, octets)
        self.gateway.say(link, message)

    def _send(self, message: Publication) -> None:
        found = self.direct.send(message.receiver, message.topic, message.payload)
        if found is None:
            self.gateway.flood(message)
        else:
            kind = message.topic.split("/")[1]
            self._say(found[0], kind, _Direct(kind, found[1]), len(found[1]))

    def _receive(self, topic: str, payload: bytes) -> None:
        try:
            actions = self.queries.receive(topic, payload, self.gateway.now)
        except ProtocolError:
            return
        for action in actions:
            match action:
                case Execute():
                    response = self.execute(action.request)
                    answer = self.queries.answer(action, response, self.gateway.now)
                    if answer is not None:
                        self._send(answer)
                case Publication():
                    self._send(action)
                case QueryAnswer(correlation, response):
                    self._tell(correlation, response)
        self._set_timer()

    def _tell(self, correlation: str, response: ResourceResponse | None) -> None:
        told = self._waiting.pop(correlation, None)
        if told is not None:
            told(response)

    # -- requests --------------------------------------------------------------------------------

    def execute(self, request: ResourceRequest) -> ResourceResponse:
        """Do what another gateway asks, or this one's own client."""
        self._world.worked(self.gateway.gateway_id)
        own = self.gateway.gateway_id
        if request.path == ACTUATOR:
            if request.writes:
                if request.payload in self._world.written:
                    self._world.violated(10, f"{own} carries out {request.payload!r} twice")
                self._world.written.add(request.payload)
            return ResourceResponse(0x44 if request.writes else 0x45, own.encode())
        asked = DirectoryRequest(GET, request.path, request.query, accept=request.accept)
        answer = self.service.answer(asked, self.gateway.now)
        while isinstance(answer, SlowLookUp):
            answer = self.service.go_on(answer) or answer
        assert isinstance(answer, DirectoryAnswer)  # a GET registers nobody
        return ResourceResponse(answer.code, answer.payload, LINK_FORMAT)

    def ask(self, target: str, request: ResourceRequest, told: OnSimulatedResponse) -> None:
        """Ask any gateway, this one included."""
        if target == self.gateway.gateway_id:
            told(self.execute(request))
            return
        epoch = self.gateway.locator.epoch_of(target) or 0
        try:
            correlation, publication = self.queries.ask(
                target, request, self.gateway.now, DEADLINE_S, epoch
            )
        except TooManyError:
            told(None)
            return
        self._waiting[correlation] = told
        self._send(publication)
        self._set_timer()

    def look_up(
        self, parameters: list[str], told: Callable[[str], None], host: Hashable = ""
    ) -> bool:
        """Look up resources, and return whether there is room for it."""
        query = ScopedQuery.parse(parameters)
        if query is None or not self.searches.has_room(host):
            return False
        looked_up = LookedUp(RESOURCES, query, None)  # all clients may read the same
        found = targets(self.members, self.gateway.gateway_id, query)
        now = self.gateway.now
        number = self.searches.begin(looked_up, found, host, lambda _: True, now)
        self._tells[number] = told
        self._go_on(now)
        return True

    def ask_many(
        self,
        place: tuple[str, str],
        request: ResourceRequest,
        done: Callable[[GatheredAnswers], None],
    ) -> None:
        """Ask all gateways of a place, as a path with wildcards does."""
        found = [record.id for record in self.members.find(*place, "*")][: DEFAULT_LIMITS.targets]
        gathering, is_told = AnswerGathering(found), False

        def go_on() -> None:
            nonlocal is_told
            while (target := gathering.next()) is not None:
                self.ask(target, request, taker(target))
            if gathering.is_over and not is_told:
                is_told = True
                done(gathering.results())

        def taker(target: str) -> OnSimulatedResponse:
            def told(response: ResourceResponse | None) -> None:
                gathering.answered(target, response)
                go_on()

            return told

        go_on()

    def register(
        self, endpoint: str, links: list[WebLink], lifetime_s: int, *, base: str = DEVICE
    ) -> None:
        """Have a device register in this gateway's directory."""
        self.registry.register(endpoint, links, self.gateway.now, base=base, lifetime_s=lifetime_s)
        self._set_timer()

    # -- time ------------------------------------------------------------------------------------

    def _go_on(self, now: float) -> None:
        asked = list(self.searches.questions(now))
        for number, question in asked:
            looked_up = self.searches.looked_up(number)
            target = question.record.id

            def told(
                response: ResourceResponse | None, number: int = number, target: str = target
            ) -> None:
                links = None if response is None else links_of(response)
                self.searches.answered(number, target, links, self.gateway.now)
                self._turn.set(self.gateway.now + TURN_S)

            self.ask(target, looked_up.request(question.page), told)
        for number, search in self.searches.take_over():
            self._tells.pop(number)(search.text())
        if self.searches.is_eager:
            self._turn.set(now + TURN_S)
        self._set_timer()

    def _due(self, now: float) -> None:
        for over in self.queries.handle_timer(now):
            if isinstance(over, TimedOut):
                self._tell(over.correlation, None)
            elif isinstance(over, Publication):
                self._send(over)
        self.searches.handle_timer(now)
        if self._times.take(now, is_news=self._digest.is_news):
            self.tell()
        self.registry.expire(now)
        self._go_on(now)

    def _set_timer(self) -> None:
        expires = self.registry.next_timer()
        self._timer.set(
            min(
                self.queries.next_timer(),
                self.searches.next_timer(),
                self._times.due,
                max(self.gateway.now, float("inf") if expires is None else expires),
            )
        )


GatheredAnswers = list[tuple[str, ResourceResponse | None]]
"""The answer of each of many gateways."""
