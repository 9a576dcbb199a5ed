"""Requests to what a device handles itself: from the request to the handler, and to the answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.base.printable import SAID_CHARACTERS_MAX, printable, said
from gateway.coap.access import METHOD_NAMES
from gateway.coap.sensors.answers import PATH, max_age_s
from gateway.sensors.device_calls import CheckAgain, nothing_against
from gateway.sensors.device_resource import (
    BODY_BYTES_MAX,
    CallRefusedError,
    ChildResource,
    DeviceResource,
    Handled,
    ResourceCall,
    ResourceReply,
)
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import (
    Sensor,
    SensorBusyError,
    SensorError,
    SensorLateError,
    ValueRefusedError,
)
from gateway.trust.policy.action import READS
from light_dataclasses import dataclass

_UNDERSTOOD: Final = frozenset(
    (
        option_numbers.IF_MATCH,
        option_numbers.IF_NONE_MATCH,
        option_numbers.URI_PATH,
        option_numbers.URI_QUERY,
        option_numbers.ACCEPT,
    )
)
"""Critical options that are known here; who looks at a precondition does so before."""
_UNSURE: Final = "it may be done"
_GONE: Final = ("4.04", "removed")
_TEXT, _BYTES, _JSON = 0, 42, 50
"""Content formats (RFC 7252, section 12.3)."""
_DONE: Final = {
    "GET": codes.CONTENT,
    "FETCH": codes.CONTENT,
    "POST": codes.CHANGED,
    "PUT": codes.CHANGED,
    "PATCH": codes.CHANGED,
    "iPATCH": codes.CHANGED,
    "DELETE": codes.DELETED,
}


@dataclass(slots=True, eq=False)
class ServedDevice:
    """A sensor that is served, as far as its handlers are concerned.

    Attributes:
        sensor: as a developer has written it.
        changes: how often it, or a child of it, has said that it has changed.

    """

    sensor: Sensor
    changes: int = 0


@dataclass(frozen=True, slots=True)
class DeviceTarget:
    """The resource of a device that a path leads to.

    Attributes:
        device: the sensor whose path begins it.
        child: the name of the child resource; empty for the sensor itself.
        resource: that one.

    """

    device: ServedDevice
    child: str
    resource: DeviceResource

    @property
    def is_there(self) -> bool:
        """Return whether the path still leads to it; a child may go while a request waits."""
        children = self.device.sensor.children
        return not self.child or children.get(self.child) is self.resource


def refusal(request: CoapRequest, resource: DeviceResource) -> CoapResponse | None:
    """Return why a request comes to no handler; None if it may."""
    for number, _ in request.options:
        if number & 1 and number not in _UNDERSTOOD:
            return CoapResponse(codes.BAD_OPTION, (), f"option {number}".encode())
    most = min(resource.body_bytes_max, BODY_BYTES_MAX)
    if len(request.payload) > most:
        size = (option_numbers.SIZE1, encode_uint(most))
        why = f"payload over {most} bytes".encode()
        return CoapResponse(codes.REQUEST_ENTITY_TOO_LARGE, (size,), why)
    return None


def call_of(
    request: CoapRequest, who: str, create: Callable[[str, ChildResource, str], None]
) -> ResourceCall:
    """Return a request as a handler is given it.

    Args:
        request: whose method is one that is known.
        who: asks, as a policy names it; empty for a stranger.
        create: takes child resources.

    """
    method = METHOD_NAMES[request.code]
    content_format = request.value(option_numbers.CONTENT_FORMAT)
    accept = request.value(option_numbers.ACCEPT)
    is_read = method in READS
    return ResourceCall(
        method,
        request.payload,
        None if content_format is None else decode_uint(content_format),
        None if accept is None else decode_uint(accept),
        tuple(value.decode(errors="replace") for value in request.values(option_numbers.URI_QUERY)),
        "" if is_read else who,
        _create=None if is_read else create,
    )


class HandlerCalls:
    """Calls handlers, each when its device's turn for it has come.

    Args:
        sampler: calls drivers.

    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    async def response(
        self,
        target: DeviceTarget,
        call: ResourceCall,
        asker: str,
        check: CheckAgain = nothing_against,
    ) -> CoapResponse:
        """Have a handler called, and tell what came of it: whatever it raises is a response.

        Args:
            target: whose handler it is.
            call: what it is given.
            asker: whose turn it takes.
            check: called when that has come; it raises what keeps the handler from being called.

        """
        sensor, handler = target.device.sensor, target.resource.handler_of(call.method)
        if handler is None:
            return not_handled(call.method)
        try:
            work = _refusing(handler, call, target)
            outcome = await self._sampler.handled(sensor, work, asker, check)
            response = _answer(sensor.name, call, outcome)
        except Exception as error:  # a handler is a developer's own code: it may raise anything
            for name in call.created:  # what failed has created nothing
                sensor.children.remove(name)
            return _failure(sensor.name, call, error)
        if call.method == "DELETE" and target.child and target.is_there:
            sensor.children.remove(target.child)
        return response


def is_busy(response: CoapResponse) -> bool:
    """Return whether a handler was not called; a read that failed is 5.03 too, without Max-Age."""
    if response.code != codes.SERVICE_UNAVAILABLE:
        return False
    return any(number == option_numbers.MAX_AGE for number, _ in response.options)


def not_handled(method: str) -> CoapResponse:
    """Return what is told where there is no handler for a method."""
    return CoapResponse(codes.METHOD_NOT_ALLOWED, (), f"{method} is not handled here".encode())


def _refusing(
    handler: Callable[[ResourceCall], Any], call: ResourceCall, target: DeviceTarget
) -> Callable[[], Any]:
    """Return what calls a handler; a refusal is an outcome, and no failure of the driver."""
    if inspect.iscoroutinefunction(handler):

        async def answer_later() -> Any:
            if not target.is_there:
                return CallRefusedError(*_GONE)
            try:
                return await handler(call)
            except CallRefusedError as refused:
                return refused

        return answer_later

    def answer() -> Any:
        if not target.is_there:
            return CallRefusedError(*_GONE)
        try:
            return handler(call)
        except CallRefusedError as refused:
            return refused

    return answer


def _answer(name: str, call: ResourceCall, outcome: Handled | CallRefusedError) -> CoapResponse:
    """Return the response that a handler's outcome is.

    Raises:
        ValueError, TypeError: the outcome can't be one.
        CallRefusedError: it is one, or is not in the format that was asked for.

    """
    if isinstance(outcome, CallRefusedError):
        raise outcome
    reply = outcome if isinstance(outcome, ResourceReply) else ResourceReply(outcome)
    code, options = _DONE[call.method], list[Option]()
    if call.created:
        code = codes.CREATED
        way = (PATH, *name.split("/"), *call.created[0].split("/"))
        options += [(option_numbers.LOCATION_PATH, segment.encode()) for segment in way]
    body, form = _body(reply)
    if form is not None:
        if call.accept not in (None, form):
            raise CallRefusedError("4.06", f"content format {form} alone")
        options.append((option_numbers.CONTENT_FORMAT, encode_uint(form)))
    if call.method in READS:
        max_age_s = max(0, min(int(reply.max_age_s), 0xFFFFFFFF))
        options.append((option_numbers.MAX_AGE, encode_uint(max_age_s)))
    return CoapResponse(code, tuple(options), body)


def _body(reply: ResourceReply) -> tuple[bytes, int | None]:
    body: Any = reply.body
    if body is None:
        return b"", None
    if isinstance(body, str):
        data, form = body.encode(), _TEXT
    elif isinstance(body, bytes):
        data, form = body, _BYTES
    else:
        data, form = json.dumps(body, separators=(",", ":"), allow_nan=False).encode(), _JSON
    if len(data) > BODY_BYTES_MAX:
        raise ValueError(f"an answer of {len(data)} bytes, over {BODY_BYTES_MAX}")
    given = reply.content_format
    if given is not None and not 0 <= given <= 0xFFFF:
        raise ValueError(f"content format {given} is none")
    return data, form if given is None else given


def _failure(name: str, call: ResourceCall, error: Exception) -> CoapResponse:
    """Return what a failure is answered with: of a write 4.xx and 5.03 alone say: not done."""
    if isinstance(error, CallRefusedError):
        code = int(error.code[0]) << 5 | int(error.code[2:])
        return CoapResponse(code, (), _told(error.why))
    if isinstance(error, ValueRefusedError):
        return CoapResponse(codes.BAD_REQUEST, (), _told(str(error)))
    if isinstance(error, SensorBusyError):
        again = (option_numbers.MAX_AGE, encode_uint(max_age_s(error.again_s)))
        return CoapResponse(codes.SERVICE_UNAVAILABLE, (again,), _told(str(error)))
    why = str(error) if isinstance(error, SensorError) else f"{name}: {said(error)}"
    if call.method in READS:
        return CoapResponse(codes.SERVICE_UNAVAILABLE, (), _told(why))
    if isinstance(error, SensorLateError):
        return CoapResponse(codes.GATEWAY_TIMEOUT, (), _told(f"{why}; {_UNSURE}"))
    return CoapResponse(codes.INTERNAL_SERVER_ERROR, (), _told(f"{why}; {_UNSURE}"))


def _told(why: str) -> bytes:
    return printable(str(why)[:SAID_CHARACTERS_MAX]).encode(errors="replace")
