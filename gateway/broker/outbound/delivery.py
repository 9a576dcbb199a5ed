"""Hands a message to everyone whom its route names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gateway.broker.outbound.channel import Channel
from gateway.broker.outbound.message import RETAIN, Message, plain_packets, share_mark
from gateway.broker.outbound.routes import Grant, Receivers, Route
from gateway.broker.sessions.presence import foremost, is_anybody
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.mqtt import V5, V311
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import SharedGroups

_IDENTIFIER_BYTES_MAX: Final = 7
"""Of a subscription identifier in a packet, with what the lengths before it grow by."""


class Delivery:
    """Delivers; keeps whose turn it is in each shared subscription.

    Args:
        groups: decides which gateway's members of a shared subscription get a message.

    """

    def __init__(self, groups: SharedGroups) -> None:
        self._groups = groups
        self._turns: Counter[tuple[str, str]] = Counter()
        self._marks: dict[tuple[str, str], int] = {}

    def deliver(
        self, message: Message, route: Route, publisher: Session | None, now_s: float
    ) -> None:
        """Give a message to every receiver of the route.

        Args:
            message: the message.
            route: of its topic.
            publisher: who published it; None for the broker itself and for other gateways.
            now_s: on the loop's clock.

        """
        qos = message.qos
        as_311, as_5 = (route.zero_311, route.zero_5) if qos else (route.live_311, route.live_5)
        if as_311:
            _send_all(as_311, message, V311, now_s)
        if as_5:
            _send_all(as_5, message, V5, now_s)
        if qos:
            for session, granted in route.queued:  # at the lower of the two QoS [MQTT-3.8.4-8]
                session.deliver(message, (granted if granted < qos else qos) << 1, (), now_s)
        if route.special or route.shared:
            self._deliver_special(message, route, publisher, now_s)

    def forward(self, route: Route, packet: bytes, payload: bytes, version: int) -> None:
        """Give a QoS 0 message without properties to everyone, as the very packet that came.

        Args:
            route: of its topic; it is plain.
            packet: the whole PUBLISH.
            payload: its payload.
            version: of the protocol, the publisher's.

        """
        is_311 = version == V311
        for channel in route.live_311 if is_311 else route.live_5:
            channel.offer(packet)
        others = route.live_5 if is_311 else route.live_311
        if others:
            message = Message(route.topic, route.key, payload, 0, False)
            _send_all(others, message, V5 if is_311 else V311, 0.0)

    def deliver_plain(self, route: Route, payloads: Sequence[bytes]) -> None:
        """Give QoS 0 messages of one topic, which are not retained and have no properties, to
        every receiver of their route, which has none that are served one by one, in their order."""
        for receivers, version in ((route.live_311, V311), (route.live_5, V5)):
            if receivers:
                packets = plain_packets(route.key, payloads, version)
                for channel in receivers:
                    for packet in packets:
                        channel.offer(packet)

    def _deliver_special(
        self, message: Message, route: Route, publisher: Session | None, now_s: float
    ) -> None:
        """Give a message to those who are served one by one."""
        for target in route.special:
            grant = target.own if target.session is publisher else target.grant
            if grant is not None:  # No Local [MQTT-3.8.3-3]
                self.give(target.session, message, grant, now_s)
        for group, members in route.shared:
            if self._is_ours(message, group):
                self._give_one(group, members, message, now_s)

    def share(self, message: Message, route: Route) -> None:
        """Choose whose members of shared subscriptions get a message that is accepted here.

        Args:
            message: not yet in the log or delivered.
            route: of its topic.

        """
        if route.is_shared_elsewhere:
            here = {group: foremost(members) for group, members in route.shared}
            chosen = self._groups.choose(message.topic, message.qos, here)
            elsewhere = {one[:2] for one in chosen}
            kept = [(*group, "") for group in here if group not in elsewhere]
            message.sharing = "", (*chosen, *kept)

    def hand_on(self, message: Message, route: Route, now_s: float) -> None:
        """Let other gateways have what was for members here, where there are none any more."""
        there = [group for group, members in route.shared if is_anybody(members)]
        self._groups.hand_on(message.entry(now_s), message.sharing[1], there)

    def give_to_member(
        self, message: Message, route: Route, group: SharedGroup, now_s: float
    ) -> bool:
        """Give a message to one member of a shared subscription; return whether the route has any.

        It was never logged here, so it does not outlive the process.
        """
        for one, members in route.shared:
            if one == group and is_anybody(members):
                self._give_one(group, members, message, now_s)
                return True
        return False

    def _is_ours(self, message: Message, group: SharedGroup) -> bool:
        origin, holders = message.sharing
        return self._groups.gives(origin, holders, group)

    def give(
        self,
        session: Session,
        message: Message,
        grant: Grant,
        now_s: float,
        *,
        retained: bool = False,
        mark: int = 0,
    ) -> None:
        """Give a message to one session.

        Args:
            session: whose.
            message: the message.
            grant: at which QoS, with which identifiers.
            now_s: on the loop's clock.
            retained: because of a new subscription: RETAIN is set [MQTT-3.3.1-8].
            mark: of the shared subscription that it is given for (`share_mark`).

        """
        qos = min(message.qos, grant.qos)
        # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        flags = qos << 1
        if retained or (message.retain and grant.retain_as_published):
            flags |= RETAIN
        channel = session.channel
        if qos:
            if retained and session.record is not None and message.ref is not None:
                session.record.given_retained(message.topic, flags, grant.identifiers)
            flags |= mark
            session.deliver(message, flags, grant.identifiers, now_s, retained=retained)
        elif channel is not None:
            channel.offer(message.packet(channel.version, flags, 0, grant.identifiers, now_s))

    def _give_one(
        self, group: tuple[str, str], members: Receivers, message: Message, now_s: float
    ) -> None:
        """Give a message to one member of a shared subscription, in turn among those online.

        One who takes no packet of its size gets it only if nobody else is there or waits: then it
        counts as sent [MQTT-3.1.2-25].
        """
        turn = self._turns[group]
        self._turns[group] = turn + 1
        count = len(members)
        online = away = too_small = None
        size_bytes = 0
        for i in range(count):
            member = members[(turn + i) % count]
            channel = member[0].channel
            if channel is None:
                if away is None and min(member[1].qos, message.qos):
                    away = member
                continue
            if channel.packet_bytes_max is not None:
                size_bytes = size_bytes or _size_at_most(message, now_s)
                if not channel.takes(size_bytes):
                    too_small = too_small or member
                    continue
            online = member
            break
        chosen = online or away or too_small
        if chosen is None:
            return
        session, subscription = chosen
        journal = next((s.record.journal for s, _ in members if s.record is not None), None)
        if journal is not None and message.ref is not None:
            journal.shared(group, message.ref, session.record)
        self.give_share(group, session, message, subscription, now_s)

    def give_share(
        self,
        group: tuple[str, str],
        session: Session,
        message: Message,
        subscription: Subscription,
        now_s: float,
    ) -> None:
        """Give a message to a member of a shared subscription."""
        mark = self._marks.get(group)
        if mark is None:
            mark = self._marks[group] = share_mark(group)
        self.give(session, message, Grant.of([subscription]), now_s, mark=mark)

    def forget_turns(self, group: tuple[str, str]) -> None:
        """A shared subscription has a member less, and perhaps none left."""
        self._turns.pop(group, None)
        self._marks.pop(group, None)


def _size_at_most(message: Message, now_s: float) -> int:
    """Return how long a message's packet for a member of a shared subscription may be, in bytes."""
    packet = message.packet(V5, message.qos << 1, 0, (), now_s)
    return len(packet) + _IDENTIFIER_BYTES_MAX


def _send_all(channels: list[Channel], message: Message, version: int, now_s: float) -> None:
    packet = message.packet(version, 0, 0, (), now_s)
    for channel in channels:
        channel.offer(packet)
