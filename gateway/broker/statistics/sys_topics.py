"""``$SYS``: the broker's statistics as topics, named and written as Mosquitto does (mosquitto(8)).

A topic is published when its text has changed. What differs from Mosquitto: ``$SYS`` itself is
in none of the counts, ``publish/bytes`` are those of whole PUBLISH packets, ``store`` counts a
message once for each client it waits for and in bytes as limits count it, and ``heap`` is the
process's resident memory.
"""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Final

from gateway.base import build
from gateway.base.event_log.failures import Failures
from gateway.base.periodic_timer import PeriodicTimer
from gateway.broker.data_plane import DataPlane
from gateway.broker.statistics import report
from gateway.broker.statistics.load import MINUTES, LoadAverages

PREFIX: Final = "$SYS/broker/"
_STATM = Path("/proc/self/statm")


def counts(core: DataPlane) -> dict[str, int]:
    """Return what is a number, by topic below `PREFIX`."""
    traffic, waiting = core.traffic, report.waiting(core)
    stored = len(core.retention) + waiting.queued_messages + waiting.inflight_messages
    stored_bytes = core.retention.bytes_held + waiting.queued_bytes + waiting.inflight_bytes
    connected, offline = core.sessions.connected, core.sessions.offline_count
    return {
        "clients/total": len(core.sessions),
        "clients/maximum": core.sessions.connected_max,
        "clients/inactive": offline,
        "clients/disconnected": offline,
        "clients/active": connected,
        "clients/connected": connected,
        "clients/expired": core.sessions.expired,
        "messages/stored": stored,
        "messages/received": traffic.packets_read,
        "messages/sent": traffic.packets_sent,
        "messages/inflight": waiting.inflight_messages,
        "store/messages/count": stored,
        "store/messages/bytes": stored_bytes,
        "subscriptions/count": len(core.subscriptions) - core.subscriptions.shared_count,
        "shared_subscriptions/count": core.subscriptions.shared_count,
        "retained messages/count": len(core.retention),
        "heap/current": resident_bytes(),
        "heap/maximum": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "publish/messages/dropped": core.dropped,
        "publish/messages/received": traffic.published,
        "publish/messages/sent": traffic.delivered,
        "publish/bytes/received": traffic.published_bytes,
        "publish/bytes/sent": traffic.delivered_bytes,
        "bytes/received": traffic.bytes_read,
        "bytes/sent": traffic.bytes_sent,
    }


def loads(core: DataPlane) -> dict[str, int]:
    """Return the counters whose load is averaged, by topic below ``load/``."""
    traffic = core.traffic
    return {
        "messages/received": traffic.packets_read,
        "messages/sent": traffic.packets_sent,
        "publish/dropped": core.dropped,
        "publish/received": traffic.published,
        "publish/sent": traffic.delivered,
        "bytes/received": traffic.bytes_read,
        "bytes/sent": traffic.bytes_sent,
        "sockets": core.connections.opened_count,
        "connections": traffic.connects,
    }


class SysTopics:
    """Publishes the statistics again and again.

    Args:
        core: whose they are.
        interval_s: how often; more than 0.

    """

    def __init__(self, core: DataPlane, interval_s: float) -> None:
        self._core = core
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._started_s = core.now()
        self._averages = LoadAverages(self._started_s)
        self._published: dict[str, str] = {}
        self._announce({"version": f"hedgerow version {build.VERSION}"})
        self._publishing = PeriodicTimer(
            self._loop, "statistics", self._publish, interval_s, Failures(core.refusals)
        )
        self._publishing.start(0.0)

    def stop(self) -> None:
        """Publish no more."""
        self._publishing.stop()

    def _publish(self) -> float:
        core = self._core
        now_s = core.now()
        texts = {"uptime": f"{int(now_s - self._started_s)} seconds"}
        texts |= {topic: str(count) for topic, count in counts(core).items()}
        for name, averages in self._averages.update(loads(core), now_s).items():
            for minutes, average in zip(MINUTES, averages, strict=True):
                texts[f"load/{name}/{minutes}min"] = f"{average:.2f}"
        self._announce(texts)
        return self._interval_s

    def _announce(self, texts: dict[str, str]) -> None:
        for topic, text in texts.items():
            if self._published.get(topic) != text:
                self._published[topic] = text
                self._core.announce(PREFIX + topic, text.encode())


def resident_bytes() -> int:
    """Resident memory of this process (proc(5), statm)."""
    return int(_STATM.read_text("ascii").split()[1]) * resource.getpagesize()
