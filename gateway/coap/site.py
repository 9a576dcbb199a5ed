"""The CoAP site of a gateway: sensors, the Resource Directory, remote queries and status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from aiocoap import resource

from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.client_roll import ClientRoll
from gateway.coap.access import CoapAccess
from gateway.coap.answers import Answers
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.fleet_lookup import DEADLINE_S, SCOPES, FleetLookUps
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.directory.own import GatewayDirectory
from gateway.coap.operations import clients as clients_resource
from gateway.coap.operations import drain as drain_resource
from gateway.coap.operations import members as members_resource
from gateway.coap.operations.hierarchy import PATH as HIERARCHY_PATH
from gateway.coap.operations.hierarchy import HierarchyAnswers, HierarchyResource, HierarchyView
from gateway.coap.operations.status import PATH as STATUS_PATH
from gateway.coap.operations.status import StatusResource, StatusSummary
from gateway.coap.remote.answers import RemoteAnswers
from gateway.coap.remote.exchange import RemoteExchange
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.forward_proxy import ForwardProxy
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.remote.noted_names import NAME as NAMES_FILE
from gateway.coap.remote.noted_names import NotedNames
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.remote.reply import OnReply, RemoteReply
from gateway.coap.responders import ImmediateResponder
from gateway.coap.sensors.answers import PATH as SENSORS_PATH
from gateway.coap.sensors.resources import OWN_IDENTITY, SensorResources
from gateway.coap.sensors.roll import SensorRoll
from gateway.coap.well_known import CountedSite, WellKnownCore
from gateway.node.links.direct_part import DirectPart
from gateway.node.members.roll import MemberRoll
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.trust.policy.principal import NAMELESS
from light_dataclasses import dataclass
from resource_directory.registry import RegistryLimits
from resource_directory.resources import ResourceDirectory
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.query import RemoteQueries
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.remote.seals import RemoteSeals
from tree_handler.remote.watches import WatchKey


@dataclass(frozen=True, slots=True)
class SiteOwner:
    """The gateway whose resources a site serves.

    Attributes:
        gateway_id: the gateway's.
        place: its domain and group.
        epoch: its boot epoch.
        access: decides who may do what with them.
        state_dir: where the Resource Directory and the names of writes have their files.
        seals: proves requests to other gateways, and checks theirs; None where nobody signs.
        limits: of requests to and from other gateways.
        directory_limits: of registrations.
        watched: begins anew what fails.

    """

    gateway_id: str
    place: Place
    epoch: int
    access: CoapAccess
    state_dir: Path
    seals: RemoteSeals | None = None
    limits: QueryLimits = DEFAULT_LIMITS
    directory_limits: RegistryLimits | None = None
    watched: WatchedTasks = field(default_factory=WatchedTasks)


class GatewaySite:
    """The resources of one gateway, on one aiocoap site.

    Args:
        owner: this gateway.
        members: who there is: remote queries find their targets in it, ``/members`` tells.
        sampler: reads the sensors.
        carrier: brings messages to other gateways, and those for this one.
        status: what ``/status`` says.
        drain: what a POST to ``/drain`` begins.
        clients: the broker's, of which ``/clients`` tells.

    Attributes:
        access: decides who may do what.
        router: passes on to other gateways what names them.
        members: who there is.
        well_known: has ``/.well-known/core``.
        turns: of all who write to its resources, over whatever protocol.

    """

    def __init__(
        self,
        owner: SiteOwner,
        members: MemberRoll,
        sampler: Sampler,
        *,
        carrier: DirectPart,
        status: Callable[[], Mapping[str, Any]],
        drain: Callable[[], None],
        clients: ClientRoll,
    ) -> None:
        self._gateway_id = gateway_id = owner.gateway_id
        self.site = CountedSite()
        self.directory = GatewayDirectory(
            owner.state_dir,
            owner.epoch,
            owner.directory_limits,
            expired=self._expired,
            watched=owner.watched.of_part(),
        )
        call_later = asyncio.get_running_loop().call_later
        turns = LookUpTurns(call_later)
        self._lookups = DirectoryAnswers(self.directory.service, self.directory.now, turns)
        self.registry = self.directory.registry
        self.access = owner.access
        self._sensors = SensorResources(
            self.site,
            sampler,
            gateway_id,
            owner.place,
            self._may_read,
            self._may_write,
            self.access.lets,
        )
        self._interfaces = ResourceDirectory(
            self.directory.service, self._owner, clock=self.directory.now
        )
        self._summary = StatusSummary(status, owner.access)
        self._serve_resources(StatusResource(status, self._tells_all_of(STATUS_PATH)))
        view = HierarchyView(gateway_id, members.known)
        self._hierarchy = HierarchyAnswers(view, members.known, owner.access, call_later)
        self.site.add_resource(
            HIERARCHY_PATH, HierarchyResource(view, self._tells_all_of(HIERARCHY_PATH))
        )
        self._serve_rest(members, clients, drain)
        self.well_known = WellKnownCore(self.site)
        self._own = (
            *(self._sensors.answers, self._sensors.devices, self._summary, self._hierarchy),
            *(self.well_known, self._lookups),
        )
        self.turns = sampler.turns
        noted = NotedNames(owner.state_dir / NAMES_FILE)
        self._execution = LocalExecution(
            self.site, gateway_id, owner.access, self._own, turns=self.turns, noted=noted
        )
        queries = RemoteQueries(gateway_id, owner.epoch, owner.limits, owner.seals, carrier.way_to)
        self._exchange = RemoteExchange(queries, carrier.send, self._execution)
        carrier.tell_of_moves(self._exchange.moved)
        self.members = known = members.known
        reached = (self._execution, self._exchange, owner.access, carrier, owner.limits)
        self.router = ForwardProxy(gateway_id, known)
        self._reach = carrier
        self._remote = RemoteAnswers(RemoteParts(gateway_id, known, *reached))
        self._named = NamedAnswers(self._execution, owner.access)
        asked = (self._asked, self._lookups, self)
        self._fleet = FleetLookUps(gateway_id, known, owner.access, *asked)
        self._further: list[Answers] = []
        self._base = ""
        """URI of this gateway's CoAP server; empty before `start`."""
        carrier.hand_to(self.receive)

    async def _asked(self, record: MemberRecord, request: ResourceRequest) -> ResourceResponse:
        if record.id == self._gateway_id:
            return await self._execution(request)
        return await self._exchange.ask(record.id, record.epoch, request, DEADLINE_S)

    def subscribe(
        self, record: MemberRecord, request: ResourceRequest, told: OnReply
    ) -> Callable[[], None]:
        """Follow a resource of a gateway: over the tree, or here if it is this gateway's."""
        if record.id != self._gateway_id:
            return self._remote.watching.follow(WatchKey(record.id, request), told)
        soon = asyncio.get_running_loop().call_soon

        def tell(response: ResourceResponse, goes_on: bool) -> None:
            soon(told, RemoteReply(response, goes_on))

        return self._execution.begin(request, "", tell, observes=True)

    def in_reach(self, gateway_id: str) -> bool:
        """Return whether a gateway is this one, or the tree reaches it."""
        return gateway_id == self._gateway_id or self._reach.epoch_of(gateway_id) is not None

    def _serve_rest(
        self, members: MemberRoll, clients: ClientRoll, drain: Callable[[], None]
    ) -> None:
        self.site.add_resource(drain_resource.PATH, drain_resource.DrainResource(drain))
        self.site.add_resource(clients_resource.PATH, clients_resource.ClientsResource(clients))
        fleet = members_resource.MembersResource(members, self.access)
        self.site.add_resource(members_resource.PATH, fleet)

    @property
    def at_hand(self) -> tuple[ImmediateResponder, ...]:
        """Return the responders that need not ask a resource."""
        # It knows at a glance what is its own, which the others would read to the end.
        return (self._remote, self._named, self._fleet, *self._own)

    def answers(self) -> Answers:
        """Return what answers peers for whom this gateway vouches itself; see `VouchedAddress`."""
        further = Answers(
            self.site,
            self.access,
            self.at_hand,
            self._execution.remote_of,
            router=self.router,
            turns=self.turns,
        )
        self.access.tell_of_changes(further.revise)
        self._further.append(further)
        return further

    def query_counts(self) -> dict[str, int]:
        """Return counts of requests to and from other gateways, and of cached answers."""
        kept = {f"cache_{name}": n for name, n in asdict(self._remote.cache.counters).items()}
        return asdict(self._exchange.queries.counters) | kept

    def start(
        self, roll: SensorRoll, base: str, told: Callable[[bytes], None] = lambda _: None
    ) -> None:
        """Serve sensors and register them in the directory, and follow what becomes of them.

        Args:
            roll: the sensors of this gateway.
            base: URI of this gateway's CoAP server.
            told: takes a digest of the directory when it has something new.

        """
        self._base = base
        self._sensors.roll(roll)
        self._sensors.devices.begin(self._relist)
        self._change((), roll.sensors)
        roll.follow(self._change)
        self.directory.start(told)

    def _change(self, gone: Sequence[str], new: Sequence[Sensor]) -> None:
        for name in gone:
            self._sensors.remove(name)
        for sensor in new:
            self._sensors.add(sensor)
        self._sensors.register(self.registry, self._base, self.directory.now())
        self._lookups.changed()

    def take_out(self, location: str) -> None:
        """Take a device's registration out of the directory, whoever made it.

        Over CoAP who made it alone may do that; this is for who may end others' sessions, too.

        Args:
            location: as ``/rd/7``.

        Raises:
            NoSuchRegistrationError: there is none.
            NotOwnerError: it is the gateway's own.

        """
        now = self.directory.now()
        found = self.registry.get(location, now)
        owner = None if found.owner == OWN_IDENTITY else found.owner
        self.registry.remove(location, now, owner=owner)
        self._lookups.changed()

    def move(self, place: Place) -> None:
        """Stand in another domain or group from now on: in each link, and in the directory."""
        self._sensors.move(place)
        self._relist()

    def _relist(self) -> None:
        """Tell what links say now, or which there are."""
        self.site.touch()
        self._change((), ())

    def receive(self, topic: str, payload: bytes, on_the_way: int = 0) -> None:
        """Take a control message from another gateway, if it is a remote query's.

        Args:
            topic: of it.
            payload: what it says.
            on_the_way: how many gateways have passed it on; 0 where that is not known.

        """
        if topic in self._exchange.queries.topics:
            self._exchange.receive(topic, payload, on_the_way)

    async def stop(self) -> None:
        """End what is under way."""
        for further in self._further:
            await further.stop()
        await self._fleet.stop()
        self._remote.stop()
        await self._exchange.stop()
        await self._execution.stop()
        await self._sensors.devices.stop()
        await self.directory.stop()

    def _serve_resources(self, status: StatusResource) -> None:
        self.site.add_resource(
            (".well-known", "core"),
            resource.WKCResource(self.site.get_resources_as_linkheader, impl_info=None),
        )
        self.site.add_resource(STATUS_PATH, status)
        self._interfaces.add_to(self.site, are_observed=True, scopes=SCOPES)

    def _expired(self) -> None:
        self._lookups.changed()

    def _may_read(self, peer: Any, sensor: str) -> bool:
        path = (SENSORS_PATH, *sensor.split("/"))
        return self.access.may(self.access.principal_of(peer), "GET", path).is_allowed

    def _may_write(self, peer: Any, method: str, path: Sequence[str]) -> bool:
        return self.access.may(self.access.principal_of(peer), method, path).is_allowed

    def _tells_all_of(self, path: tuple[str, ...]) -> Callable[[Any], bool]:
        def tells_all(peer: Any) -> bool:
            principal = self.access.principal_of(peer)
            return not self.access.may(principal, "GET", path).is_public

        return tells_all

    def _owner(self, request: Any) -> str | None:
        """Return who registers; what another gateway calls somebody is no name here."""
        principal = self.access.principal_of(request.remote)
        if principal.kind in NAMELESS:
            return None
        return f"{principal.via}/{principal}" if principal.via else str(principal)
