"""Handlers of a device beside reading and setting (A7): its methods, and child resources.

A sensor of a developer's own handles a method of CoAP by having the method's handler::

    class Stepper(Actuator):
        def handle_post(self, call: ResourceCall) -> None:
            move = Move(self.driver, int(call.text()))
            call.create(f"moves/{move.number}", move)    # 2.01, Location-Path, a link

A handler that a class does not have is 4.05, but for GET and PUT, which read and set a sensor.
Handlers are called as ``read`` is: in a thread of its own, with a limit of time, one call of a
device after the other; one that is ``async`` runs in the event loop and must not block it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from gateway.base.printable import said
from gateway.sensors.link_texts import DescriptionError, check_text, checked_attributes
from light_dataclasses import dataclass
from tree_handler.members.place import check_name

GET: Final = "GET"
HANDLERS: Final[Mapping[str, str]] = {
    GET: "handle_get",
    "POST": "handle_post",
    "PUT": "handle_put",
    "DELETE": "handle_delete",
    "FETCH": "handle_fetch",
    "PATCH": "handle_patch",
    "iPATCH": "handle_ipatch",
}
"""The function that a class must have for a method, under the policy's name of the method."""

CHILDREN_MAX: Final = 64
"""Child resources of one sensor."""
CHILDREN_OF_ONE_MAX: Final = 16
"""Of these that one principal has had created; all who have shown no proof are one."""
CHILD_NAME_CHARACTERS_MAX: Final = 100
BODY_BYTES_MAX: Final = 65_536
"""Of a body that a class may ask for (`DeviceResource.body_bytes_max`), and of an answer."""

_ERROR_CODE = re.compile(r"[45]\.[0-3][0-9]")

ReplyBody = None | str | bytes | Mapping[str, Any] | list[Any]
"""Nothing, a text, bytes, or what becomes JSON."""


class CallRefusedError(Exception):
    """A handler does not do what it is asked.

    Args:
        code: of the answer, as ``"4.09"``.
        why: told to who asks.

    """

    def __init__(self, code: str, why: str) -> None:
        if not _ERROR_CODE.fullmatch(code):
            raise ValueError(f"{code!r} is no code of an error, as 4.09")
        super().__init__(f"{code} {why}")
        self.code = code
        self.why = why


class ChildConflictError(CallRefusedError):
    """A child resource can't be created as things are: 4.09 (RFC 8132, section 2.3)."""

    def __init__(self, why: str) -> None:
        super().__init__("4.09", why)


@dataclass(frozen=True, slots=True)
class ResourceReply:
    """An answer of which more is to be said than its body.

    Attributes:
        body: of it.
        content_format: of a body of bytes or text, by its number (RFC 7252, section 12.3); that of
            text (0), bytes (42) or JSON (50) unless it is given.
        max_age_s: for how long it may be kept; without it 0.

    """

    body: ReplyBody = None
    content_format: int | None = None
    max_age_s: int = 0


Create = Callable[[str, "ChildResource", str], None]
"""Takes a child's name, the child, and who has it created."""


@dataclass(slots=True)
class ResourceCall:
    """One request to a device.

    Attributes:
        method: as a policy names it: one of `HANDLERS`.
        payload: its body.
        content_format: of the body, by its number; None if it says none.
        accept: the format wanted of the answer; None for any.
        query: the arguments behind ``?``, each as ``name=value`` or ``name``.
        who: who asks, as ``psk:operator``; empty for a stranger. Of GET and FETCH it is always
            empty, for what they are answered is everybody's who may read.
        created: names of the children that were created by it.

    """

    method: str
    payload: bytes = b""
    content_format: int | None = None
    accept: int | None = None
    query: tuple[str, ...] = ()
    who: str = ""
    created: list[str] = field(default_factory=list)
    _create: Create | None = None

    def text(self) -> str:
        """Return the body as text.

        Raises:
            CallRefusedError: it is none.

        """
        try:
            return self.payload.decode()
        except UnicodeDecodeError:
            raise CallRefusedError("4.00", "the payload is no UTF-8") from None

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            CallRefusedError: it is none.

        """
        try:
            return json.loads(self.payload)
        except (ValueError, RecursionError):
            raise CallRefusedError("4.00", "the payload is no JSON") from None

    def create(self, name: str, child: ChildResource) -> None:
        """Have a child resource for who asks: the answer is 2.01 and leads to it.

        Args:
            name: below the sensor's path, as ``moves/1``.
            child: what is there.

        Raises:
            ChildConflictError: there is one of this name, or no room for more.
            ValueError: the name can't be one.

        """
        if self._create is None:
            raise ValueError(f"{self.method} creates nothing")
        self._create(name, child, self.who)
        self.created.append(name)


Handled = ReplyBody | ResourceReply
"""The result of a handler, at once or when it is awaited."""


class DeviceResource:
    """A resource of a device at one path: its link, its handlers, and the observers of its changes.

    Handlers (`HANDLERS`) are methods that a subclass may have. Each takes a `ResourceCall` and
    returns `Handled`. CallRefusedError says that nothing was done. Whatever else it raises is 5.00
    with what that says (5.03 for GET and FETCH), and all else goes on.
    """

    resource_type: str = ""
    """``rt`` of the link (RFC 6690, section 3.1); may be several, separated by spaces."""
    interface: str = ""
    """``if`` of the link (RFC 6690, section 3.2)."""
    attributes: Mapping[str, str] = MappingProxyType({})
    """Further attributes of the link, such as ``{"position": "roof"}``; `describe` changes them."""
    body_bytes_max: int = 8_192
    """The longest body that its handlers take; at most `BODY_BYTES_MAX`."""

    _tell_changed: Callable[[], None] | None = None
    _tell_described: Callable[[], None] | None = None

    def changed(self) -> None:
        """Tell who observes it (RFC 7641): may be called in any thread, as often as it changes.

        A sensor without ``handle_get`` is read at once.
        """
        if self._tell_changed is not None:
            self._tell_changed()

    def describe(self, attributes: Mapping[str, str]) -> None:
        """Have other attributes in its link from now on, in the Resource Directory too.

        Raises:
            ValueError: see `checked_attributes`.

        """
        self.attributes = checked_attributes(attributes)
        if self._tell_described is not None:
            self._tell_described()

    def follow_changes(
        self, changed: Callable[[], None] | None, described: Callable[[], None] | None
    ) -> None:
        """Have the gateway told of changes; None if it is served no more."""
        self._tell_changed, self._tell_described = changed, described

    def handler_of(self, method: str) -> Callable[[ResourceCall], Any] | None:
        """Return what handles a method here; None if nothing does."""
        found = getattr(self, HANDLERS.get(method, ""), None)
        return found if callable(found) else None


class ChildResource(DeviceResource):
    """A resource below a sensor, which comes and goes at run time.

    Args:
        resource_type: the link's ``rt``; the class's unless given.
        attributes: likewise its further attributes.

    Raises:
        ValueError: an attribute is not of the form; it is named.

    """

    content_formats: tuple[int, ...] = ()
    """``ct`` of the link (RFC 7252, section 7.2.1)."""

    def __init__(
        self, *, resource_type: str | None = None, attributes: Mapping[str, str] | None = None
    ) -> None:
        if resource_type is not None:
            self.resource_type = resource_type
        self.attributes = checked_attributes(self.attributes if attributes is None else attributes)


class ChildResources:
    """The child resources of one sensor; may be changed in any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._children: dict[str, ChildResource] = {}
        self._creators: dict[str, str] = {}
        self._told: Callable[[], None] | None = None

    def add(self, name: str, child: ChildResource, by: str | None = None) -> None:
        """Have one more, until it is removed.

        Args:
            name: below the sensor's path, as ``moves/1``.
            child: what is there.
            by: who has it created; None for the device itself.

        Raises:
            ChildConflictError: there is one of this name, or no room for more.
            ValueError: the name can't be one, or the child can't be served (`check_served`).

        """
        if len(name) > CHILD_NAME_CHARACTERS_MAX:
            raise ValueError(f"child: a name longer than {CHILD_NAME_CHARACTERS_MAX}")
        for segment in name.split("/"):
            check_name("child", segment)
        if not isinstance(child, ChildResource):
            why = f"{type(child).__name__} is no subclass of ChildResource"
            raise DescriptionError("child", why)
        check_served(child)
        with self._changing:
            if name in self._children:
                raise ChildConflictError(f"there is {name!r} already")
            if len(self._children) >= CHILDREN_MAX:
                raise ChildConflictError(f"there are {CHILDREN_MAX} already: delete one first")
            if by is not None:
                if sum(one == by for one in self._creators.values()) >= CHILDREN_OF_ONE_MAX:
                    why = f"you have {CHILDREN_OF_ONE_MAX} already: delete one first"
                    raise ChildConflictError(why)
                self._creators[name] = by
            self._children[name] = child
        if self._told is not None:
            self._told()

    def remove(self, name: str) -> None:
        """Have one no more: who observes it is told; nothing if there is none."""
        with self._changing:
            child = self._children.pop(name, None)
            self._creators.pop(name, None)
        if child is not None:
            child.follow_changes(None, None)
            if self._told is not None:
                self._told()

    def get(self, name: str) -> ChildResource | None:
        """Return the one of a name; None if there is none."""
        return self._children.get(name)

    def items(self) -> list[tuple[str, ChildResource]]:
        """Return all, with their names."""
        with self._changing:
            return list(self._children.items())

    def __len__(self) -> int:
        return len(self._children)

    def follow(self, told: Callable[[], None] | None) -> None:
        """Have the gateway told when one comes or goes; None if they are served no more."""
        self._told = told


def check_described(served: DeviceResource) -> None:
    """Check that a link can carry what a resource says of itself.

    Raises:
        DescriptionError: it can't; the attribute is named.

    """
    check_text("resource_type", served.resource_type or "")
    check_text("interface", served.interface or "")
    checked_attributes(served.attributes)
    if isinstance(served, ChildResource):
        formats = served.content_formats
        if not isinstance(formats, tuple | list) or not all(map(_is_format, formats)):
            raise DescriptionError(
                "content_formats", f"{formats!r} is no tuple of numbers up to 65535"
            )
        check_text("content_formats", " ".join(map(str, formats)))


def check_served(served: DeviceResource) -> None:
    """Check that a resource of a developer's own class can be served.

    Raises:
        DescriptionError: a link can't carry what it says (`check_described`), or it lacks what the
            gateway needs of it; that is named.

    """
    check_described(served)
    most = served.body_bytes_max
    if not isinstance(most, int) or most < 0:
        raise DescriptionError("body_bytes_max", f"{most!r} is no number of bytes")
    for method, name in HANDLERS.items():
        try:
            served.handler_of(method)
        except Exception as error:  # a property, which may raise anything
            raise DescriptionError(name, said(error)) from error
    try:
        served.follow_changes(None, None)
    except Exception as error:  # a frozen dataclass
        raise DescriptionError("follow_changes", said(error)) from error


def _is_format(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= 0xFFFF
