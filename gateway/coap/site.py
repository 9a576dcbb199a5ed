"""What a gateway serves over CoAP: sensors, the Resource Directory, remote queries and status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiocoap import resource

from dtls.identity import LOCAL
from gateway.clients import ClientRoll
from gateway.coap import clients as clients_resource
from gateway.coap import drain as drain_resource
from gateway.coap import remote
from gateway.coap.access import EVERYTHING, PublicPaths, identity_of
from gateway.coap.at_hand import AtHand
from gateway.coap.directory import GatewayDirectory
from gateway.coap.directory_answers import DirectoryAnswers
from gateway.coap.execution import LocalExecution
from gateway.coap.lookup_turns import LookUpTurns
from gateway.coap.remote_exchange import RemoteExchange
from gateway.coap.sensor_resources import SensorResources
from gateway.coap.status import PATH as STATUS_PATH
from gateway.coap.status import StatusResource, StatusSummary
from gateway.coap.well_known import CountedSite, WellKnownCore
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from resource_directory.resources import ResourceDirectory
from tree_handler.hierarchy import Membership
from tree_handler.member import Place
from tree_handler.remote_query import RemoteQueries


@dataclass(frozen=True, slots=True)
class SiteOwner:
    """Whose resources they are.

    Attributes:
        gateway_id: the gateway's.
        place: its domain and group.
        epoch: its boot epoch.
        anonymous: whether anybody may write.
        state_dir: where the Resource Directory has its file.
        public: paths that strangers may read.

    """

    gateway_id: str
    place: Place
    epoch: int
    anonymous: bool
    state_dir: Path
    public: Sequence[str] = EVERYTHING


class GatewaySite:
    """The resources of one gateway, on one aiocoap site.

    Args:
        owner: this gateway.
        members: who there is; remote queries find their targets in it.
        sampler: reads the sensors.
        publish: takes (topic, payload) to the other gateways.
        status: what ``/status`` says.
        drain: what a POST to ``/drain`` begins.
        clients: the broker's, of which ``/clients`` tells.

    """

    def __init__(
        self,
        owner: SiteOwner,
        members: Membership,
        sampler: Sampler,
        *,
        publish: Callable[[str, bytes], None],
        status: Callable[[], Mapping[str, Any]],
        drain: Callable[[], None],
        clients: ClientRoll,
    ) -> None:
        gateway_id = owner.gateway_id
        self.site = CountedSite()
        self.directory = GatewayDirectory(owner.state_dir, owner.epoch, expired=self._expired)
        turns = LookUpTurns(asyncio.get_running_loop().call_later)
        self._lookups = DirectoryAnswers(self.directory.service, self.directory.now, turns)
        self.registry = self.directory.registry
        self._sensors = SensorResources(self.site, sampler, gateway_id, owner.place)
        self._anonymous = owner.anonymous
        public = PublicPaths(EVERYTHING if owner.anonymous else owner.public)
        execute = LocalExecution(self.site, gateway_id, self._may_write, public)
        self._exchange = RemoteExchange(RemoteQueries(gateway_id, owner.epoch), publish, execute)
        self._interfaces = ResourceDirectory(
            self.directory.service, _owner, clock=self.directory.now
        )
        self._summary = StatusSummary(status, anonymous=owner.anonymous)
        self._serve_resources(StatusResource(status, anonymous=owner.anonymous))
        self.site.add_resource(drain_resource.PATH, drain_resource.DrainResource(drain))
        self.site.add_resource(
            clients_resource.PATH,
            clients_resource.ClientsResource(clients, anonymous=owner.anonymous),
        )
        self.site.add_resource(
            remote.PATH,
            remote.RemoteResource(
                gateway_id,
                members,
                execute=execute,
                exchange=self._exchange,
                may_write=self._may_write,
            ),
        )

    @property
    def at_hand(self) -> tuple[AtHand, ...]:
        """What can be answered without asking a resource."""
        return (self._sensors.answers, self._summary, WellKnownCore(self.site), self._lookups)

    def start(self, sensors: Iterable[Sensor], base: str) -> None:
        """Serve sensors and register them in the directory.

        Args:
            sensors: of this gateway.
            base: URI of this gateway's CoAP server.

        """
        for sensor in sensors:
            self._sensors.add(sensor)
        self._sensors.register(self.registry, base, self.directory.now())
        self.directory.start()

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a control message from another gateway, if it is a remote query's."""
        if topic in self._exchange.queries.topics:
            self._exchange.receive(topic, payload)

    async def stop(self) -> None:
        """End what is under way."""
        await self._exchange.stop()
        await self.directory.stop()

    def _serve_resources(self, status: StatusResource) -> None:
        self.site.add_resource(
            (".well-known", "core"),
            resource.WKCResource(self.site.get_resources_as_linkheader, impl_info=None),
        )
        self.site.add_resource(STATUS_PATH, status)
        self._interfaces.add_to(self.site, are_observed=True)

    def _expired(self) -> None:
        self._lookups.changed()

    def _may_write(self, identity: str | None) -> bool:
        return self._anonymous or identity not in (None, str(LOCAL))


def _owner(request: Any) -> str | None:
    identity = identity_of(request)
    return str(identity) if identity.may_write else None
