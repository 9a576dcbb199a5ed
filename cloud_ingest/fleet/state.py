"""All that the fleet's watch remembers, and its form on a disk: msgpack with a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from cloud_ingest.fleet import fair_history, latency
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.clock import WatchClock
from cloud_ingest.fleet.flapping import Flaps
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.ingest_judging import IngestState
from cloud_ingest.fleet.latency import Minutes
from cloud_ingest.fleet.listening import Listening
from cloud_ingest.fleet.outgoing import OutgoingState
from cloud_ingest.member_place import is_column

VERSION: Final = 1
MAX_CLOSED_GAPS: Final = 20_000
"""Gaps that are remembered after they were closed, and those that were given up."""
MAX_GAPS_A_GATEWAY: Final = 1_000
"""Likewise, of one gateway, so that none takes the room of others."""
DEPARTED_TIMES: Final = 4
"""So many times as many gateways as are remembered are forgotten but for how far their numbers had
come; it takes some 50 bytes for one."""
MAX_QUERIES: Final = 8
"""Queries whose last batch is remembered."""


class StateError(ValueError):
    """The kept state can't be read; the message says why."""


class GapRow(msgspec.Struct, array_like=True, frozen=True):
    """A gap that is closed, or that is no longer looked for."""

    gateway: str
    epoch: int
    first: int
    last: int
    found_us: int
    closed_us: int | None


class LatencyRow(msgspec.Struct, array_like=True, frozen=True):
    """A row of the table ``latency``."""

    gateway: str
    minute_us: int
    stage: str
    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    part: int = 0


def latency_row(due: tuple[int, int, latency.LatencyKey, Mapping[int, int]]) -> LatencyRow:
    """Return the row of a minute's part that is due: when it was, which part, of what, and its
    counts."""
    minute_us, part, key, counts = due
    p50_ms, p95_ms, p99_ms = (latency.percentile_ms(counts, share) for share in (0.5, 0.95, 0.99))
    told = p50_ms, p95_ms, p99_ms, latency.most_ms(counts)
    return LatencyRow(key[0], minute_us, key[1], sum(counts.values()), *told, part)


class TopologyRow(msgspec.Struct, array_like=True, frozen=True):
    """A row of the table ``topology``; links as peer, rtt_ms, role and state."""

    time_us: int
    gateway: str
    epoch: int
    root: str
    parent: str | None
    root_cost_ms: float | None
    links: tuple[tuple[str, float | None, str, str], ...]
    reconvergences: int


class RowOutbox(msgspec.Struct):
    """Rows that are to be appended to tables.

    Attributes:
        number: of this outbox; one higher when its rows are in the tables.
        is_being_written: some of its rows may be in the tables.
        latency: rows of that table.
        topology: likewise.

    """

    number: int = 1
    is_being_written: bool = False
    latency: list[LatencyRow] = []
    topology: list[TopologyRow] = []


class FleetState(msgspec.Struct):
    """The whole state that the watch keeps; bounded by gateways and their sensors.

    Attributes:
        version: of this form.
        queries: the last batch that was taken, by query; the present one is the last.
        listening: when the collector was there.
        gateways: by id.
        alerts: open ones and those that were.
        minutes: latencies of the last minutes.
        gaps: that are closed or given up.
        outbox: rows that are to be appended.
        departed: the highest number of each life of gateways that are forgotten, by gateway; those
            that were forgotten last are the last.
        began_late_until_us: until then the first number that is heard of a life may be any; None if
            all was heard from the beginning.
        clock: what is known of the clocks of collectors and of the job.
        flaps: what was wrong of late, and how often.
        ingest: what is known of the job and its collectors.
        outgoing: what a way out was told of alerts, and is to be told.

    """

    version: int = VERSION
    queries: dict[str, int] = {}
    listening: Listening = msgspec.field(default_factory=Listening)
    gateways: dict[str, GatewayState] = {}
    alerts: AlertBook = msgspec.field(default_factory=AlertBook)
    minutes: Minutes = msgspec.field(default_factory=Minutes)
    gaps: list[GapRow] = []
    outbox: RowOutbox = msgspec.field(default_factory=RowOutbox)
    began_late_until_us: int | None = None
    departed: dict[str, dict[int, int]] = {}
    clock: WatchClock = msgspec.field(default_factory=WatchClock)
    flaps: Flaps = msgspec.field(default_factory=Flaps)
    ingest: IngestState = msgspec.field(default_factory=IngestState)
    outgoing: OutgoingState = msgspec.field(default_factory=OutgoingState)

    def forget(self, gateway: str) -> None:
        """Remember nothing of a gateway, as if it had never been heard."""
        self.gateways.pop(gateway, None)
        self.departed.pop(gateway, None)
        self.alerts.forget(gateway)
        self.flaps.forget(gateway)
        self.outgoing.forget(gateway)
        for minute in self.minutes.open.values():
            for key in [each for each in minute.histograms if each[0] == gateway]:
                del minute.histograms[key]
        self.gaps = [each for each in self.gaps if each.gateway != gateway]
        self.outbox.latency = [each for each in self.outbox.latency if each.gateway != gateway]
        self.outbox.topology = [each for each in self.outbox.topology if each.gateway != gateway]

    def encode(self) -> bytes:
        """Return the form on a disk."""
        return msgspec.msgpack.encode(self)


def newest_of_each(gaps: list[GapRow]) -> list[GapRow]:
    """Return those that are left if the gateways that have the most give room, in their order."""
    if len(gaps) <= MAX_GAPS_A_GATEWAY:
        return gaps
    return fair_history.newest_of_each(
        gaps, lambda gap: gap.gateway, most=MAX_CLOSED_GAPS, most_of_one=MAX_GAPS_A_GATEWAY
    )


REMEDY: Final = (
    "it is damaged. No row depends on it: move it away, and the watch begins anew, without its "
    "open alerts and what it knew of sensors"
)
"""The remedy for a state that can't be read."""


class _Versioned(msgspec.Struct):
    version: int


_decoder = msgspec.msgpack.Decoder(FleetState)


def decode(data: bytes) -> FleetState:
    """Read what was remembered.

    Raises:
        StateError: it is damaged, or of a later version.

    """
    try:
        version = msgspec.msgpack.decode(data, type=_Versioned).version
        if version > VERSION:
            raise StateError(
                f"of version {version}, and up to {VERSION} are read: run a later Hedgerow"
            )
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StateError(f"{error}: {REMEDY}") from error
    found.alerts.count_open()  # an earlier version did not
    for gateway in found.gateways.values():
        # An earlier version took any text for a place.
        if not all(name is None or is_column(name) for name in (gateway.domain, gateway.group)):
            gateway.domain = gateway.group = None
    return found
