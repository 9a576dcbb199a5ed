"""Actions, in the words in which a policy allows or denies them.

    =======================================  =======================================
    ``publish``, ``subscribe``, ``deliver``  an MQTT topic, or a filter of topics
    ``GET`` ... ``DELETE``                   a path over CoAP, such as ``/sensors/valve``
    ``console``                              a path of the console, such as ``/metrics``
    ``drain``                                take the gateway out of its fleet
    ``membership``                           take gateways into the fleet, or out of it
    ``clients``                              see who is connected to the broker
    ``disconnect``                           end a client's connection or session
    ``configure``                            change the configuration and its certificates
    =======================================  =======================================

The last five are rights of their own: no rule on paths gives them, though ``/drain`` and
``/clients`` are paths over CoAP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from light_dataclasses import dataclass

PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
DELIVER: Final = "deliver"
CONSOLE: Final = "console"
DRAIN: Final = "drain"
MEMBERSHIP: Final = "membership"
CLIENTS: Final = "clients"
DISCONNECT: Final = "disconnect"
CONFIGURE: Final = "configure"

TOPIC_VERBS: Final = (PUBLISH, SUBSCRIBE, DELIVER)
READS: Final = ("GET", "FETCH")
"""Methods that change nothing (RFC 7252, section 5.8; RFC 8132, section 2)."""
WRITES: Final = ("POST", "PUT", "PATCH", "iPATCH", "DELETE")
PATH_VERBS: Final = (*READS, *WRITES, CONSOLE)
RIGHTS: Final = (DRAIN, MEMBERSHIP, CLIENTS, DISCONNECT, CONFIGURE)
VERBS: Final = (*TOPIC_VERBS, *PATH_VERBS, *RIGHTS)

NOWHERE: Final = "-"
"""Written for "no domain" and "no group"."""
_QUERY: Final = b"q"
_DRAIN: Final = b"drain"
_CLIENTS: Final = b"clients"
_MEMBERS: Final = b"members"


class ActionError(ValueError):
    """A text that is no action: ``str(error)`` is one line.

    Args:
        value: the text.
        why: what is wrong with it.

    """

    def __init__(self, value: str, why: str) -> None:
        super().__init__(f"{value!r} {why}")
        self.value = value
        self.why = why


@dataclass(frozen=True, slots=True)
class ActionPlace:
    """The gateway, domain or group at which something is done.

    Attributes:
        gateway: its id; empty for the one that decides.
        domain: empty for none.
        group: empty for none.

    """

    gateway: str = ""
    domain: str = ""
    group: str = ""

    @classmethod
    def parse(cls, text: str) -> ActionPlace:
        """Read ``DOMAIN/GROUP/GATEWAY``, with ``-`` for no domain and no group.

        Raises:
            ActionError: it has not three parts, or an empty one.

        """
        parts = text.split("/")
        if len(parts) != 3 or "" in parts:
            raise ActionError(text, "is not DOMAIN/GROUP/GATEWAY")
        domain, group = [part if part != NOWHERE else "" for part in parts[:2]]
        return cls(parts[2], domain, group)

    def __str__(self) -> str:
        return "/".join((self.domain or NOWHERE, self.group or NOWHERE, self.gateway))


HERE: Final = ActionPlace()


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that somebody wants to do.

    Attributes:
        verb: one of `VERBS`.
        target: topic, filter or path; empty with `RIGHTS`.
        where: at which gateway.
        client_id: over MQTT, how the client calls itself.

    """

    verb: str
    target: str = ""
    where: ActionPlace = HERE
    client_id: str = ""

    @classmethod
    def parse(cls, text: str, where: ActionPlace = HERE, client_id: str = "") -> Action:
        """Read ``VERB TARGET``, such as ``PUT /sensors/valve``, ``publish a/b`` or ``drain``.

        A path that leads to another gateway (``/q/...``) or has a right of its own is that.

        Args:
            text: the action.
            where: at which gateway.
            client_id: see the class.

        Raises:
            ActionError: it is none.

        """
        verb, _, target = text.strip().partition(" ")
        target = target.strip()
        if verb not in VERBS:
            raise ActionError(text, f"begins with none of {', '.join(VERBS)}")
        if (verb in RIGHTS) == bool(target):
            why = "has a target, and there is none" if target else "has no topic or path"
            raise ActionError(text, why)
        if verb in PATH_VERBS and target[0] != "/":
            raise ActionError(text, "has a path that does not begin with '/'")
        if verb in READS or verb in WRITES:
            return coap_action(verb, [part.encode() for part in _segments(target)], where)
        return cls(verb, target, where, client_id)

    def __str__(self) -> str:
        what = f"{self.verb} {self.target}" if self.target else self.verb
        return f"{what} at {self.where}" if self.where.gateway else what


def coap_action(method: str, segments: Sequence[bytes], where: ActionPlace = HERE) -> Action:
    """Return what a CoAP request wants.

    Args:
        method: its name, as ``GET``.
        segments: of the path.
        where: the gateway that it came to; one of ``/q/...`` leads to another.

    """
    if segments and segments[0] == _QUERY and len(segments) > 3:
        domain, group, gateway = [segment.decode(errors="replace") for segment in segments[1:4]]
        if gateway != where.gateway:
            there = (place if place != NOWHERE else "" for place in (domain, group))
            where = ActionPlace(gateway, *there)
        segments = segments[4:]
    first = segments[0] if segments else b""
    if first == _DRAIN:
        return Action(DRAIN, "", where)
    if first == _CLIENTS:
        return Action(CLIENTS if method in READS else DISCONNECT, "", where)
    if first == _MEMBERS and method not in READS:
        return Action(MEMBERSHIP, "", where)
    return Action(method, path_text(segments), where)


def path_text(segments: Sequence[bytes]) -> str:
    """Return a path as rules name it: a slash, or what is no text, inside a segment is
    percent-encoded."""
    return "/" + "/".join(map(_segment_text, segments))


def _segment_text(segment: bytes) -> str:
    try:
        return segment.decode().replace("%", "%25").replace("/", "%2F")
    except UnicodeDecodeError:
        return "".join(f"%{byte:02X}" for byte in segment)


def _segments(path: str) -> list[str]:
    return [] if path == "/" else path[1:].split("/")
