"""The status record: how a gateway says it is, in a message of its own, and how Spark reads it.

A record is a msgpack map with short keys; `_Form` has them all. ``r`` is the least version that a
reader needs. What a gateway does not know of itself is left out. Keys that are unknown here are
kept (`record_formats.later_keys`), so a record of a later version is read as far as it is known.

A record is at most `MAX_BYTES` long, and every text and list in it is bounded, on both sides: who
writes one leaves out what is too much and says how much there was, who reads one refuses it. What
names a place or a gateway has the form that the tree has for it; other texts can be printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from light_dataclasses import dataclass
from record_formats.later_keys import later_keys
from tree_handler.errors import ProtocolError
from tree_handler.members.place import NAME_CHARACTERS_MAX, check_name

VERSION: Final = 1
SUFFIX: Final = "$status"
"""The last level of its topic: ``<domain>/<group>/<gateway>/$status``."""
MAX_BYTES: Final = 16_384
MAX_TEXT: Final = 200
"""Characters of a text."""
MAX_LINKS: Final = 64
MAX_ROLES: Final = 16
MAX_COUNTERS: Final = 64
_MOST: Final = 2**63 - 1
_MOST_MS: Final = 1e9
_MOST_S: Final = 1e10
"""Three hundred years."""
_MOST_LOAD: Final = 1e6
_MOST_CELSIUS: Final = 1e4
_MOST_OFFSET_MS: Final = 1e15


class StatusError(ValueError):
    """A payload is no status record; the message names the field by its key, as ``$.up``."""


_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Name = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]
_Millis = Annotated[float, Meta(ge=0, le=_MOST_MS)]
_Count = Annotated[int, Meta(ge=0, le=_MOST)]


class LinkStatus(msgspec.Struct, frozen=True, array_like=True):
    """A link to a neighbour, as its gateway sees it.

    Attributes:
        peer: the neighbour's gateway id.
        rtt_ms: smoothed round-trip time; None before the first sample.
        role: ``root`` (to the parent), ``designated`` or ``blocked``.
        state: ``forwarding`` or ``discarding``.

    """

    peer: _Name
    rtt_ms: _Millis | None
    role: _Text
    state: _Text


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRecord:
    """The state of a gateway, as it says itself. What it does not know is None.

    Attributes:
        interval_s: how often it says so.
        software: Hedgerow's version.
        build: ``compiled`` or ``interpreted``.
        up_s: since its process started.
        domain: where it stands; ``""`` for none.
        group: as ``domain``.
        latitude: of where it stands on the map, degrees of WGS 84, north positive.
        longitude: likewise, east positive.
        clock_offset_ms: how far its clock is ahead of its time source, by what the kernel was told.
        temperature_cel: of its processor.
        under_voltage: its supply is too weak now.
        disk_free_bytes: of the disk with its state.
        disk_total_bytes: likewise.
        disk_written_bytes: what was written to that disk since the machine started.
        memory_bytes: resident memory of its process.
        memory_available_bytes: of the machine.
        load1: the machine's load average over one minute.
        queue_messages: QoS 1 and 2 messages that wait for clients or are on their way to them.
        queue_bytes: what waits for links, in them and in the log.
        mqtt_clients: that are connected.
        root: gateway id of the tree's root.
        parent: gateway id of its parent; None at a root.
        root_cost_ms: cost of the way to the root; None while there is none.
        roles: what it is in the tree and the hierarchy.
        links: to its neighbours, at most `MAX_LINKS`.
        link_count: how many links there are.
        reconvergences: how often root or parent has changed since its start.
        elections: how often it has become root since its start.
        counters: at most `MAX_COUNTERS`, each from the start of its process.
        page: address of its console, as ``https://gw-b.example:8443/healthz``; ``""`` where only
            its own machine reaches it.
        release: name of the release that it runs; ``""`` where it was installed in another way.
        ring: of the roll-out in which it got its last release on trial, from 1.
        trial: ``on trial``, or how the last trial ended: ``confirmed`` or ``returned``.
        trial_release: the release that this trial is, or was, of.
        trial_why: why it went back.
        reboot_due: an upgrade of the system waits for a reboot.
        backup: how it stands with its backups by a timer: ``off``, ``none yet``, ``good``,
            ``overdue`` or ``trial failed``.
        backup_why: why it is not good, or why the last one failed though an older one is good.
        backup_age_s: of the last good one.
        rated_messages_per_s: of QoS 1 that the machine should be given, as was measured there.
        rated_clients: that it should be given.
        more: keys of later versions; their version ``r`` among them, if it is beyond `VERSION`.

    """

    interval_s: float
    software: str = ""
    build: str = ""
    up_s: float = 0.0
    domain: str = ""
    group: str = ""
    latitude: float | None = None
    longitude: float | None = None
    clock_offset_ms: float | None = None
    temperature_cel: float | None = None
    under_voltage: bool | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_written_bytes: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    load1: float | None = None
    queue_messages: int = 0
    queue_bytes: int = 0
    mqtt_clients: int = 0
    root: str = ""
    parent: str | None = None
    root_cost_ms: float | None = None
    roles: tuple[str, ...] = ()
    links: tuple[LinkStatus, ...] = ()
    link_count: int = 0
    reconvergences: int = 0
    elections: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    page: str = ""
    release: str = ""
    ring: int | None = None
    trial: str = ""
    trial_release: str = ""
    trial_why: str = ""
    reboot_due: bool | None = None
    backup: str = ""
    backup_why: str = ""
    backup_age_s: float | None = None
    rated_messages_per_s: int | None = None
    rated_clients: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the msgpack form, without what is as it is by default.

        Raises:
            StatusError: it is longer than `MAX_BYTES`.

        """
        form = _Form(VERSION, **{key: getattr(self, name) for key, name in _NAMES.items()})
        made = msgspec.to_builtins(form) | dict(self.more)
        payload = msgspec.msgpack.encode(made)
        if len(payload) > MAX_BYTES:
            raise StatusError(f"{len(payload)} bytes, at most {MAX_BYTES} are read")
        return payload


class _Form(msgspec.Struct, omit_defaults=True):
    """The map on the wire. A key without a default is required."""

    r: Annotated[int, Meta(ge=1)]
    e: Annotated[float, Meta(gt=0, le=86_400)]
    v: _Text = ""
    b: _Text = ""
    up: Annotated[float, Meta(ge=0, le=_MOST_S)] = 0.0
    d: _Name = ""
    g: _Name = ""
    la: Annotated[float, Meta(ge=-90, le=90)] | None = None
    lo: Annotated[float, Meta(ge=-180, le=180)] | None = None
    co: Annotated[float, Meta(ge=-_MOST_OFFSET_MS, le=_MOST_OFFSET_MS)] | None = None
    tc: Annotated[float, Meta(ge=-_MOST_CELSIUS, le=_MOST_CELSIUS)] | None = None
    uv: bool | None = None
    df: _Count | None = None
    dt: _Count | None = None
    dw: _Count | None = None
    m: _Count | None = None
    ma: _Count | None = None
    l1: Annotated[float, Meta(ge=0, le=_MOST_LOAD)] | None = None
    qm: _Count = 0
    qb: _Count = 0
    cl: _Count = 0
    rt: _Name = ""
    pa: _Name | None = None
    rc: _Millis | None = None
    ro: Annotated[tuple[_Text, ...], Meta(max_length=MAX_ROLES)] = ()
    ln: Annotated[tuple[LinkStatus, ...], Meta(max_length=MAX_LINKS)] = ()
    lc: _Count = 0
    ch: _Count = 0
    el: _Count = 0
    c: Annotated[dict[_Text, _Count], Meta(max_length=MAX_COUNTERS)] = {}
    w: _Text = ""
    rl: _Text = ""
    rg: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    tr: _Text = ""
    tn: _Text = ""
    ty: _Text = ""
    rb: bool | None = None
    bk: _Text = ""
    by: _Text = ""
    ba: Annotated[float, Meta(ge=0, le=_MOST_S)] | None = None
    rm: _Count | None = None
    rn: _Count | None = None


_NAMES: Final[Mapping[str, str]] = {
    "e": "interval_s",
    "v": "software",
    "b": "build",
    "up": "up_s",
    "d": "domain",
    "g": "group",
    "la": "latitude",
    "lo": "longitude",
    "co": "clock_offset_ms",
    "tc": "temperature_cel",
    "uv": "under_voltage",
    "df": "disk_free_bytes",
    "dt": "disk_total_bytes",
    "dw": "disk_written_bytes",
    "m": "memory_bytes",
    "ma": "memory_available_bytes",
    "l1": "load1",
    "qm": "queue_messages",
    "qb": "queue_bytes",
    "cl": "mqtt_clients",
    "rt": "root",
    "pa": "parent",
    "rc": "root_cost_ms",
    "ro": "roles",
    "ln": "links",
    "lc": "link_count",
    "ch": "reconvergences",
    "el": "elections",
    "c": "counters",
    "w": "page",
    "rl": "release",
    "rg": "ring",
    "tr": "trial",
    "tn": "trial_release",
    "ty": "trial_why",
    "rb": "reboot_due",
    "bk": "backup",
    "by": "backup_why",
    "ba": "backup_age_s",
    "rm": "rated_messages_per_s",
    "rn": "rated_clients",
}
_KNOWN: Final = frozenset(_Form.__struct_fields__)
_decoder = msgspec.msgpack.Decoder(_Form)


def decode(payload: bytes) -> StatusRecord:
    """Read a record of any version.

    Raises:
        StatusError: too long, not msgpack, a field missing, of a wrong type or out of its bounds, a
            number that is not finite, or a key that must be understood and is not.

    """
    if len(payload) > MAX_BYTES:
        raise StatusError(f"{len(payload)} bytes, at most {MAX_BYTES} are read")
    try:
        form = _decoder.decode(payload)
        more = later_keys(payload, _KNOWN)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise StatusError(str(error)) from error
    _check_texts(form)
    if form.r > VERSION:
        more["r"] = form.r
    found = {name: getattr(form, key) for key, name in _NAMES.items()}
    return StatusRecord(**found, more=more)


def _check_texts(form: _Form) -> None:
    """Check that names are names, and that all other texts can be printed.

    Raises:
        StatusError: one is not so; it names the field by its key.

    """
    if form.g and not form.d:
        raise StatusError(f"{form.g!r} is in no domain - at `$.g`")
    names = [("d", form.d), ("g", form.g), ("rt", form.rt), ("pa", form.pa or "")]
    names += [("ln", link.peer) for link in form.ln]
    for key, name in names:
        try:
            if name:
                check_name("no name", name)
        except ProtocolError as error:
            raise StatusError(f"{error} - at `$.{key}`") from error
    texts: dict[str, Iterable[str]] = {"v": (form.v,), "b": (form.b,), "ro": form.ro, "c": form.c}
    texts |= {key: (getattr(form, key),) for key in ("w", "rl", "tr", "tn", "ty", "bk", "by")}
    texts["ln"] = [text for link in form.ln for text in (link.role, link.state)]
    for key, found in texts.items():
        for text in found:
            if not text.isprintable():
                raise StatusError(f"{text!r} can't be printed - at `$.{key}`")
