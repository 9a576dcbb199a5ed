"""Sample of one gateway at one time, in types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from gateway.tools.top.gateway_document import GatewayDocument
from light_dataclasses import dataclass

LOG_LINES_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAnswers:
    """The answers of one gateway, as they came; None where nothing came.

    Attributes:
        at_s: when, on a steady clock.
        time_s: when, in seconds since 1970.
        status: of ``/status``.
        clients: of ``/clients``, the busiest.
        sensors: of ``/sensors``.
        alerts: of ``/alerts``.
        log: the last lines of its log, the newest last.
        trouble: why something is missing, by its name here.

    """

    at_s: float
    time_s: float
    status: Any = None
    clients: Any = None
    sensors: Any = None
    alerts: Any = None
    log: Sequence[str] = ()
    trouble: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NeighbourSample:
    """A neighbour in the tree."""

    id: str
    role: str
    forwards: bool
    rtt_ms: float | None
    heard_s: float | None
    queued_bytes: int
    sent_bytes: int
    received_bytes: int
    address: str


@dataclass(frozen=True, slots=True)
class ClientSample:
    """An MQTT client; bytes and packets since it connected."""

    id: str
    user: str
    address: str
    since_s: float
    subscriptions: int
    queued: int
    inflight: int
    dropped: int
    bytes_read: int
    bytes_sent: int
    packets_read: int
    packets_sent: int


@dataclass(frozen=True, slots=True)
class SensorSample:
    """A sensor or actuator, with its last value as text."""

    name: str
    type: str
    unit: str
    state: str
    value: str
    time_s: float | None


@dataclass(frozen=True, slots=True)
class AlertSample:
    """Something that is wrong."""

    severity: str
    rule: str
    gateway: str
    part: str
    message: str
    since_s: float
    taken_on_by: str


@dataclass(frozen=True, slots=True)
class Totals:
    """The counters that only grow while a gateway runs."""

    messages_in: int = 0
    messages_out: int = 0
    dropped: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySample:
    """All of it.

    Attributes:
        at_s: when, on a steady clock.
        time_s: when, in seconds since 1970.
        tells_all: whether it told more than strangers hear.
        boot: its boot epoch; another one after a start.
        delay_bounds_s: upper bounds of the buckets of acknowledgements' delays.
        delay_counts: how many of each, since they are measured, and above the last.
        log: the last lines of its log.
        trouble: why something is missing, by its name in `GatewayAnswers`.

    """

    at_s: float
    time_s: float
    id: str
    place: str
    version: str
    tells_all: bool
    boot: int
    up_s: float | None
    root: str
    parent: str
    hops: int
    cost_ms: float | None
    is_draining: bool
    last_change: str
    connected: int
    away: int
    queued: int
    inflight: int
    retained: int
    link_bytes: int
    log_bytes: int
    free_bytes: float | None
    disk_failure: str
    failing: tuple[str, ...]
    totals: Totals
    delay_bounds_s: tuple[float, ...]
    delay_counts: tuple[float, ...]
    neighbours: tuple[NeighbourSample, ...]
    clients: tuple[ClientSample, ...]
    sensors: tuple[SensorSample, ...]
    sensors_failing: int
    alerts: tuple[AlertSample, ...]
    alerts_standing: int
    alerts_critical: int
    log: tuple[str, ...]
    trouble: Mapping[str, str]


def read(answers: GatewayAnswers) -> GatewaySample | None:
    """Return what answers say; None if there is no status among them."""
    told = GatewayDocument(answers.status)
    if not told.text("id"):
        return None
    sensors = tuple(_sensor(one) for one in GatewayDocument(answers.sensors).each("sensors"))
    neighbours = tuple(_neighbour(one) for one in told.each("neighbours"))
    place = f"{told.text('domain') or '-'}/{told.text('group') or '-'}"
    return GatewaySample(
        at_s=answers.at_s,
        time_s=answers.time_s,
        id=told.text("id"),
        place=place,
        version=told.text("version"),
        tells_all="boot_epoch" in (answers.status or ()),
        boot=told.count("boot_epoch"),
        up_s=told.number("up_s"),
        root=told.text("root"),
        parent=told.text("parent"),
        hops=told.count("hops"),
        cost_ms=told.number("cost_ms"),
        is_draining=told.at("drain").is_table(),
        last_change=told.text("last_change", "why"),
        connected=told.count("broker", "clients", "connected"),
        away=told.count("broker", "clients", "disconnected"),
        queued=told.count("broker", "messages", "queued"),
        inflight=told.count("broker", "messages", "inflight"),
        retained=told.count("broker", "messages", "retained"),
        link_bytes=sum(one.queued_bytes for one in neighbours),
        log_bytes=told.count("log_bytes"),
        free_bytes=told.number("disk", "free_bytes"),
        disk_failure=told.text("disk", "failure"),
        failing=tuple(name for name, _ in told.named("failing")),
        totals=_totals(told.at("broker")),
        delay_bounds_s=told.numbers("broker", "acknowledgement_delays", "bounds_s"),
        delay_counts=told.numbers("broker", "acknowledgement_delays", "counts"),
        neighbours=neighbours,
        clients=tuple(_client(one) for one in GatewayDocument(answers.clients).each("clients")),
        sensors=sensors,
        sensors_failing=sum(one.state == "bad" for one in sensors),
        alerts=tuple(_alert(one) for one in GatewayDocument(answers.alerts).each("alerts")),
        alerts_standing=told.count("alerts", "standing"),
        alerts_critical=told.count("alerts", "critical"),
        log=tuple(answers.log[-LOG_LINES_MAX:]),
        trouble=dict(answers.trouble),
    )


def _totals(broker: GatewayDocument) -> Totals:
    return Totals(
        messages_in=broker.count("messages", "received"),
        messages_out=broker.count("messages", "sent"),
        dropped=broker.count("messages", "dropped"),
        bytes_in=broker.count("bytes", "received"),
        bytes_out=broker.count("bytes", "sent"),
    )


def _neighbour(one: GatewayDocument) -> NeighbourSample:
    return NeighbourSample(
        id=one.text("id"),
        role=one.text("role"),
        forwards=one.is_true("forwarding"),
        rtt_ms=one.number("rtt_ms"),
        heard_s=one.number("heard_s_ago"),
        queued_bytes=one.count("queued_bytes") + one.count("backlog_bytes"),
        sent_bytes=one.count("sent_bytes"),
        received_bytes=one.count("received_bytes"),
        address=one.text("address"),
    )


def _client(one: GatewayDocument) -> ClientSample:
    return ClientSample(
        id=one.text("id"),
        user=one.text("user"),
        address=one.text("address"),
        since_s=one.number("since_s") or 0.0,
        subscriptions=one.count("subscriptions"),
        queued=one.count("queued"),
        inflight=one.count("inflight"),
        dropped=one.count("dropped"),
        bytes_read=one.count("bytes_read"),
        bytes_sent=one.count("bytes_sent"),
        packets_read=one.count("packets_read"),
        packets_sent=one.count("packets_sent"),
    )


def _sensor(one: GatewayDocument) -> SensorSample:
    return SensorSample(
        name=one.text("name"),
        type=one.text("type"),
        unit=one.text("unit"),
        state=one.text("state"),
        value=one.text("last", "value"),
        time_s=one.number("last", "time_s"),
    )


def _alert(one: GatewayDocument) -> AlertSample:
    return AlertSample(
        severity=one.text("severity"),
        rule=one.text("rule"),
        gateway=one.text("gateway"),
        part=one.text("part"),
        message=one.text("message"),
        since_s=(one.number("since_us") or 0.0) / 1e6,
        taken_on_by=one.text("taken_on", "who"),
    )
