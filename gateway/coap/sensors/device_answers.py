"""Requests that devices handle (A7), over CoAP: ``/sensors/NAME``, and ``/sensors/NAME/CHILD``.

Methods that a class has a handler for, and all of its child resources, are answered here; GET and
PUT of a sensor without one are readings and writes, and DELETE of a sensor that was added removes
it. Who may, the policy has decided before (`access`), by the method and the path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiocoap import error, resource

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from coap_engine.rates import ADMITTED, RateShares
from dtls.identity import ANONYMOUS
from gateway.coap.access import METHOD_NAMES
from gateway.coap.answers import RENDERING_RATES
from gateway.coap.responders import AskForBody, PendingResponse, RespondTo
from gateway.coap.sensors.answers import PATH
from gateway.coap.sensors.device_observers import DeviceObservers
from gateway.coap.sensors.handler_calls import (
    DeviceTarget,
    HandlerCalls,
    ServedDevice,
    call_of,
    not_handled,
    refusal,
)
from gateway.coap.sensors.link_attributes import CheckedLink, DescribedLinks
from gateway.coap.sensors.roll import SensorRoll
from gateway.sensors.device_resource import (
    GET,
    CallRefusedError,
    ChildResource,
    DeviceResource,
    check_described,
)
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.trust.policy.action import READS

_OBSERVERS: Final = "observers of "
"""The asker of a device's state for observers, before the device's name."""
SEGMENTS_MAX: Final = 32
"""Of a path that is looked at; no name has more."""
LISTED_SOON_S: Final = 0.2
"""Changes of links within this time are registered together."""

LetsPeer = Callable[[CoapPeer, str, Sequence[str]], bool]
"""Returns whether a peer may do something, by the policy of now."""


def any_peer(_peer: CoapPeer, _method: str, _path: Sequence[str]) -> bool:
    """Let everybody: who serves resources without a policy."""
    return True


AttributesOfDevice = Callable[[DeviceResource], dict[str, str]]
"""Returns the attributes that the gateway adds to a resource's link."""


class DeviceAnswers:
    """Answers them; see `gateway.coap.responders.ImmediateResponder`.

    Args:
        site: has the links of child resources.
        sampler: calls drivers.
        attributes: says what a link has beside what the class says.
        lets: says again who may have something handled, when its turn has come.

    Attributes:
        roll: knows which sensors were added; None where none can be.

    """

    def __init__(
        self,
        site: resource.Site,
        sampler: Sampler,
        attributes: AttributesOfDevice,
        lets: LetsPeer = any_peer,
    ) -> None:
        self._lets = lets
        self.segments = frozenset((PATH.encode(),))
        self.roll: SensorRoll | None = None
        self._site = site
        self._sampler = sampler
        self._attributes = attributes
        self._calls = HandlerCalls(sampler)
        self._observers = DeviceObservers(self._rendered)
        self._shares = RateShares(RENDERING_RATES)
        self._devices: dict[str, ServedDevice] = {}
        self._listed: dict[str, dict[str, ChildLink]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links_changed: Callable[[], None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    # -- what is served --------------------------------------------------------------------------

    def begin(self, links_changed: Callable[[], None]) -> None:
        """Take from now on what devices say of changes, in whichever thread.

        Args:
            links_changed: called some time after a link has come, gone or become another.

        """
        self._loop = asyncio.get_running_loop()
        self._links_changed = links_changed

    def serve(self, sensor: Sensor) -> None:
        """Answer for a sensor and its children from now on."""
        self._devices[sensor.name] = device = ServedDevice(sensor)
        self._listed[sensor.name] = {}
        sensor.follow_changes(self._changing(device, ""), self._soon(self._described))
        sync = self._soon(partial(self._sync, device))
        sensor.children.follow(sync)
        self._sync(device)

    def remove(self, name: str) -> None:
        """Answer for a sensor no more; who observes it or a child of it is told."""
        device = self._devices.pop(name)
        device.sensor.follow_changes(None, None)
        device.sensor.children.follow(None)
        for child in list(self._listed[name]):
            self._unlist(device, child)
        del self._listed[name]
        self._observers.removed((device, ""))

    def listed(self) -> Iterator[tuple[tuple[str, ...], dict[str, str | None]]]:
        """Give path and link attributes of each child resource."""
        for sensor, children in self._listed.items():
            for name, link in children.items():
                yield _path(sensor, name), link.get_link_description()

    async def stop(self) -> None:
        """Carry out nothing any more, and tell nobody."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._observers.stop()
        for task in (tasks := list(self._under_way)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- requests --------------------------------------------------------------------------------

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse | None:
        """Return the call of a device's handler, or a refusal; None if no handler is meant."""
        method, target = METHOD_NAMES.get(request.code), self._target(request)
        if target is None or method is None:
            return None
        if target.resource.handler_of(method) is None:
            return not_handled(method) if target.child else None
        if method == "DELETE" and not target.child and self._is_added(target.device.sensor.name):
            return None
        refused = refusal(request, target.resource)
        if refused is None and self._shares.admit(peer, now) != ADMITTED:
            refused = self._shares.refusal().response()
        return refused or _Called(self, target, request, peer)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Note an observer; return False if no handler answers."""
        if request.code not in (codes.GET, codes.FETCH):
            return False
        target = self._target(request)
        if target is None or target.resource.handler_of(METHOD_NAMES[request.code]) is None:
            return False
        self._observers.observe((target.device, target.child), exchange, request, respond)
        return True

    def ended(self, exchange: int) -> None:
        """Forget the observer, if the exchange has one."""
        self._observers.ended(exchange)

    def call(
        self,
        target: DeviceTarget,
        request: CoapRequest,
        peer: CoapPeer,
        done: Callable[[CoapResponse], None],
    ) -> Callable[[], None]:
        """Have a request answered; see `gateway.coap.responders.PendingResponse`."""
        task = asyncio.create_task(
            self._carry_out(target, request, peer, done), name=f"call {target.device.sensor.name}"
        )
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        # A write that was begun is carried out, whether or not anybody waits for what comes of it.
        return partial(_cancel, task) if METHOD_NAMES[request.code] in READS else _nothing

    async def _carry_out(
        self,
        target: DeviceTarget,
        request: CoapRequest,
        peer: CoapPeer,
        done: Callable[[CoapResponse], None],
    ) -> None:
        device, who = target.device, peer.principal or ""
        before = device.changes
        call = call_of(request, who, device.sensor.children.add)
        check = partial(self._check_again, request, peer)
        done(await self._calls.response(target, call, who or str(ANONYMOUS), check))
        if request.observe and device.changes != before:  # before this one was there to be told
            self._changed(device, target.child)

    def _check_again(self, request: CoapRequest, peer: CoapPeer) -> None:
        """Check of a write that waited for its device whether its peer still may.

        Raises:
            CallRefusedError: it may not, or is logged out.

        """
        method = METHOD_NAMES[request.code]
        if method in READS:
            return
        if request.is_still_in is not None and not request.is_still_in():
            raise CallRefusedError("4.03", "who asked for this is logged out, or has other roles")
        path = [one.decode(errors="replace") for one in request.values(option_numbers.URI_PATH)]
        if not self._lets(peer, method, path):
            raise CallRefusedError("4.03", "the policy does not allow this any more")

    async def _rendered(
        self, device: ServedDevice, child: str, request: CoapRequest
    ) -> CoapResponse:
        found = device.sensor.children.get(child) if child else device.sensor
        if found is None:
            return CoapResponse(codes.NOT_FOUND)
        call = call_of(request, "", device.sensor.children.add)
        asker = f"{_OBSERVERS}{child}"  # those of each resource have their own turns
        return await self._calls.response(DeviceTarget(device, child, found), call, asker)

    def _target(self, request: CoapRequest) -> DeviceTarget | None:
        """Return what a path leads to: the sensor with the longest name that begins it."""
        segments = request.values(option_numbers.URI_PATH)[1:]
        if not 0 < len(segments) <= SEGMENTS_MAX:
            return None
        try:
            names = [segment.decode() for segment in segments]
        except UnicodeDecodeError:
            return None
        # A slash inside a segment, or a segment that is empty, would make another path of it than
        # the one that was decided on.
        if not all(names) or any("/" in name for name in names):
            return None
        for count in range(len(names), 0, -1):
            device = self._devices.get("/".join(names[:count]))
            if device is not None:
                child = "/".join(names[count:])
                found = device.sensor.children.get(child) if child else device.sensor
                return None if found is None else DeviceTarget(device, child, found)
        return None

    def _is_added(self, name: str) -> bool:
        return self.roll is not None and self.roll.is_added(name)

    # -- changes ---------------------------------------------------------------------------------

    def _changing(self, device: ServedDevice, child: str) -> Callable[[], None]:
        return self._soon(partial(self._changed, device, child))

    def _changed(self, device: ServedDevice, child: str) -> None:
        if self._devices.get(device.sensor.name) is not device:
            return
        device.changes += 1
        read = None
        if not child and device.sensor.handler_of(GET) is None:
            read = partial(self._sampler.read_soon, device.sensor)
        self._observers.changed((device, child), read)

    def _soon(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what has work done in the event loop, once for all who ask until it is done."""
        is_asked = False

        def do() -> None:
            nonlocal is_asked
            is_asked = False
            work()

        def ask() -> None:
            nonlocal is_asked
            if not is_asked and self._loop is not None:
                is_asked = True
                with suppress(RuntimeError):  # the loop is closed: the gateway has stopped
                    self._loop.call_soon_threadsafe(do)

        return ask

    def _sync(self, device: ServedDevice) -> None:
        """Have the links of those children that there are now."""
        name, sensor = device.sensor.name, device.sensor
        if self._devices.get(name) is not device:
            return
        listed, there = self._listed[name], dict(sensor.children.items())
        for child, link in list(listed.items()):
            if there.get(child) is not link.child:
                self._unlist(device, child)
        for child, found in there.items():
            if child not in listed:
                found.follow_changes(self._changing(device, child), self._soon(self._described))
                listed[child] = link = ChildLink(_full(name, child), found, self._attributes)
                if _full(name, child) not in self._devices:  # that sensor is meant by the path
                    self._site.add_resource(_path(name, child), link)
                self._described()

    def _unlist(self, device: ServedDevice, child: str) -> None:
        name = device.sensor.name
        link = self._listed[name].pop(child)
        link.child.follow_changes(None, None)
        if _full(name, child) not in self._devices:
            with suppress(KeyError):  # a sensor of this name has come and gone meanwhile
                self._site.remove_resource(_path(name, child))
        self._observers.removed((device, child))
        self._described()

    def _described(self) -> None:
        if self._alarm is None and self._loop is not None:
            self._alarm = self._loop.call_later(LISTED_SOON_S, self._tell_of_links)

    def _tell_of_links(self) -> None:
        self._alarm = None
        if self._links_changed is not None:
            self._links_changed()


class _Called:
    """A request that a handler will answer."""

    def __init__(
        self, answers: DeviceAnswers, target: DeviceTarget, request: CoapRequest, peer: CoapPeer
    ) -> None:
        self._asked = (target, request, peer)
        self._answers = answers

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Call the handler; `done` takes its response."""
        target, request, peer = self._asked
        return self._answers.call(target, request, peer, done)


class ChildLink(resource.Resource):  # type: ignore[misc]  # aiocoap has no types
    """A child resource as the site knows it: its link; requests are answered before they come here.

    Args:
        name: of sensor and child, for the log.
        child: whose link it is.
        attributes: says what the link has beside what the class says.

    Attributes:
        child: as given.

    """

    def __init__(self, name: str, child: ChildResource, attributes: AttributesOfDevice) -> None:
        super().__init__()
        self.child = child
        self._attributes = attributes
        self._link = CheckedLink(name, partial(check_described, child), self._described)

    def get_link_description(self) -> dict[str, str | None]:
        """Return the attributes of the link."""
        return self._link.now()

    def _described(self) -> DescribedLinks:
        child = self.child
        described = {
            "rt": child.resource_type,
            "if": child.interface,
            "ct": " ".join(map(str, child.content_formats)),
        }
        is_read = any(child.handler_of(method) is not None for method in READS)
        observed: dict[str, str | None] = {"obs": None} if is_read else {}
        return {
            **{name: value for name, value in described.items() if value},
            **observed,
            **self._attributes(child),
        }

    async def render(self, _request: Any) -> Any:
        """Refuse: it has gone meanwhile."""
        raise error.NotFound


def _full(sensor: str, child: str) -> str:
    return f"{sensor}/{child}"


def _path(sensor: str, child: str) -> tuple[str, ...]:
    return (PATH, *sensor.split("/"), *child.split("/"))


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _nothing() -> None:
    """There is nothing to end: a write is carried out."""
