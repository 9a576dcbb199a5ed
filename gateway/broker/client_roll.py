"""The clients of the broker as an operator sees them: a list, one of them in detail, and its end.

What is told here names people and machines; who may ask for it is decided by those who serve it.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.base.in_turns import in_turns
from gateway.broker.data_plane import DataPlane
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions.session import NEVER_EXPIRES_S, Session
from gateway.mqtt import ReasonCode
from gateway.mqtt.kinds import V5
from light_dataclasses import dataclass

PAGE = 200
"""Clients that are told at a time."""
IDS_AT_ONCE: Final = 1_000
"""So many identifiers are gone through before others may have a turn."""
RANKED_S = 1.0
"""The busiest are sought by what has passed since they were sought last, but not within so long."""
_WHY = "by the operator"


@dataclass(frozen=True, slots=True)
class KickResult:
    """The result of disconnecting a client.

    Attributes:
        was_connected: it had a connection, which is closed now.
        is_forgotten: its session has ended too.

    """

    was_connected: bool
    is_forgotten: bool


class ClientRoll:
    """All clients of one broker that have a session.

    Args:
        core: the broker.
        wall_clock: seconds since 1970.

    """

    def __init__(self, core: DataPlane, wall_clock: Callable[[], float] = time.time) -> None:
        self._core = core
        self._wall_clock = wall_clock
        self._ranked_at_s = 0.0

    async def page(self, after: str = "") -> Mapping[str, Any]:
        """Return the next of them in the order of their identifiers, ready for JSON.

        Others have turns meanwhile. Whose session is there all the time is told once; whose comes
        or ends meanwhile is told or not.

        Args:
            after: begin behind this identifier; at the first if it is empty.

        """
        sessions = self._core.sessions
        found = await self._next_ids(after)
        told: list[dict[str, Any]] = []
        async for one in in_turns(found[:PAGE]):
            session = sessions.get(one)
            if session is not None:
                told.append(self._line(session))
        has_more = len(found) > PAGE
        if has_more and not told:  # all of these have gone, and who asks goes on behind the last
            return await self.page(found[PAGE - 1])
        return {"count": len(sessions), "has_more": has_more, "clients": told}

    async def _next_ids(self, after: str) -> list[str]:
        """Return the identifiers of a page, and one more if there is one."""
        ids = [one for one, _ in self._core.sessions.items()]
        found: list[str] = []
        async for first in in_turns(range(0, len(ids), IDS_AT_ONCE)):
            some = [one for one in ids[first : first + IDS_AT_ONCE] if one > after]
            found = heapq.nsmallest(PAGE + 1, itertools.chain(found, some))
        return found

    async def busiest(self, count: int) -> Mapping[str, Any]:
        """Return those that are connected and send and get the most, the busiest first, ready for
        JSON.

        What has passed since somebody asked last decides, then what has since they connected. Two
        who ask by turns shorten each other's time, and both are still told of the busiest. It is
        one pass over all, since the loop waits meanwhile; what is told of each is told in turns.

        Args:
            count: how many at most, 1 or more, of which `PAGE` are told.

        """
        now_s, most = self._core.now(), min(count, PAGE)
        is_new = now_s - self._ranked_at_s >= RANKED_S
        if is_new:
            self._ranked_at_s = now_s
        busiest: list[tuple[int, int, int, Session]] = []
        connected, least, least_passed = 0, -1, 0
        for number, session in enumerate(self._core.sessions.values()):
            channel = session.channel
            if channel is None:
                continue
            connected += 1
            passed = channel.bytes_read + channel.bytes_sent
            recent = passed - channel.ranked_bytes
            if is_new:
                channel.ranked_bytes = passed
            if recent < least or (recent == least and passed <= least_passed):
                continue
            one = (recent, passed, number, session)
            if len(busiest) < most:
                heapq.heappush(busiest, one)
            else:
                heapq.heapreplace(busiest, one)
            if len(busiest) == most:
                least, least_passed = busiest[0][:2]
        found = [one[-1] for one in sorted(busiest, reverse=True)]
        told: list[dict[str, Any]] = []
        async for session in in_turns(found):
            if session.channel is not None:
                told.append(self._line(session) | _passed(session.channel))
        return {"count": len(self._core.sessions), "connected": connected, "clients": told}

    def one(self, client_id: str) -> Mapping[str, Any] | None:
        """Return all that is known of one, ready for JSON; None if there is no such session."""
        session = self._core.sessions.get(client_id)
        return None if session is None else self._line(session) | _detail(session)

    def kick(self, client_id: str, *, forget: bool = False) -> KickResult | None:
        """Close a client's connection, in 5.0 after DISCONNECT 0x98 (section 3.14.2.1).

        Its will is published as if it had been lost, and it may come back.

        Args:
            client_id: whose.
            forget: end its session too: its subscriptions and all that waits for it.

        Returns:
            What became of it; None if there is no such session.

        """
        session = self._core.sessions.get(client_id)
        if session is None:
            return None
        was_connected = session.channel is not None
        if forget and was_connected:
            self._core.sessions.set_expiry(session, 0)
        self._core.disconnections.disconnect(
            session, ReasonCode.ADMINISTRATIVE_ACTION, _WHY, linger=True
        )
        if forget and not was_connected:
            self._core.sessions.end(session)
        return KickResult(was_connected, forget)

    def _line(self, session: Session) -> dict[str, Any]:
        client, channel = session.client, session.channel
        ago_s = self._core.now() - (session.away_since_s if channel is None else channel.opened_s)
        return {
            "id": client.client_id,
            "user": client.username,
            "address": client.address,
            "protocol": "MQTT 5.0" if client.version == V5 else "MQTT 3.1.1",
            "is_connected": channel is not None,
            "since_s": round(self._wall_clock() - ago_s, 3),
            "subscriptions": len(session.subscriptions),
            "queued": session.outgoing.backlog.count,
            "inflight": len(session.outgoing.inflight),
            "dropped": session.outgoing.backlog.dropped
            + (0 if channel is None else channel.dropped),
        }


def _passed(channel: Channel) -> dict[str, int]:
    """Return what has passed since it connected."""
    return {
        "bytes_read": channel.bytes_read,
        "bytes_sent": channel.bytes_sent,
        "packets_read": channel.packets_read,
        "packets_sent": channel.packets_sent,
    }


def _detail(session: Session) -> dict[str, Any]:
    client, channel, backlog = session.client, session.channel, session.outgoing.backlog
    return {
        "by_certificate": client.certificate is not None,
        "roles": client.roles,
        "is_bridge": client.is_bridge,
        "expiry_s": None if session.expiry_s == NEVER_EXPIRES_S else session.expiry_s,
        "will": None if session.will is None else session.will.topic,
        "queued_bytes": backlog.size_bytes + backlog.places_bytes,
        "inflight_bytes": session.outgoing.inflight_bytes,
        "buffered_bytes": 0 if channel is None else channel.buffered_bytes,
        "reads": None if channel is None else not channel.is_paused,
        "unreleased": len(session.incoming),
        "filters": [
            {
                "filter": topic_filter,
                "qos": one.qos,
                "no_local": one.no_local,
                "retain_as_published": one.retain_as_published,
                "identifier": one.identifier,
            }
            for topic_filter, one in sorted(session.subscriptions.items())
        ],
    }
