"""The promises made to clients, the messages that they got, and the judgement on both.

Time is a counter of events, so that "before" and "after" are certain: a subscription covers a
message for sure if it was granted before the message was sent, and for sure not if it was asked
for after the message was acknowledged. In between both are right.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

CHECK_S = 0.05
"""Between two looks at the notes while they change."""


class Delivered(Protocol):
    """A PUBLISH from the broker."""

    @property
    def topic(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def qos(self) -> int: ...


@dataclass(eq=False)
class Message:
    """A published message."""

    publisher: str
    number: int
    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    sent_at: int | None = None
    acknowledged_at: int | None = None
    is_complete: bool = False
    """PUBACK or PUBCOMP came: now at the latest the broker hands it out (section 4.3.3)."""
    reason: int = 0

    def __str__(self) -> str:
        state = "acknowledged" if self.acknowledged_at is not None else "not acknowledged"
        return f"{self.publisher}'s {self.number} on {self.topic} at QoS {self.qos} ({state})"


@dataclass(eq=False)
class Subscription:
    """A client's subscription, from the first SUBSCRIBE to its UNSUBACK."""

    client_id: str
    topic_filter: str
    qos: int
    asked_at: int
    granted_at: int | None = None
    left_at: int | None = None
    """The time at which UNSUBSCRIBE was sent."""
    gone_at: int | None = None
    """The time at which UNSUBACK came."""

    @property
    def group(self) -> tuple[str, str] | None:
        """The shared subscription that it is a part of."""
        if not self.topic_filter.startswith("$share/"):
            return None
        _, group, topic_filter = self.topic_filter.split("/", 2)
        return group, topic_filter

    @property
    def proper(self) -> str:
        """The filter without the share."""
        group = self.group
        return self.topic_filter if group is None else group[1]

    def covers(self, message: Message) -> bool:
        """Return whether it surely covers a message."""
        return (
            self.granted_at is not None
            and message.sent_at is not None
            and self.granted_at < message.sent_at
            and self.left_at is None
            and matches(self.proper, message.topic)
        )

    def may_cover(self, message: Message) -> bool:
        """Return whether the message may come because of it."""
        if message.sent_at is None or not matches(self.proper, message.topic):
            return False
        acknowledged_at = message.acknowledged_at
        is_late = acknowledged_at is not None and self.asked_at > acknowledged_at
        is_over = self.gone_at is not None and message.sent_at > self.gone_at
        return not is_late and not is_over


def matches(topic_filter: str, topic: str) -> bool:
    """Section 4.7, for topics without ``$``."""
    levels = topic.split("/")
    for i, level in enumerate(topic_filter.split("/")):
        if level == "#":
            return True
        if i >= len(levels) or level not in {"+", levels[i]}:
            return False
    return len(levels) == len(topic_filter.split("/"))


@dataclass
class Ledger:
    """All clients' notes."""

    messages: dict[bytes, Message] = field(default_factory=dict)
    """By payload, which is unique; retained deletions have none and stand in `retained`."""
    retained: defaultdict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    subscriptions: list[Subscription] = field(default_factory=list)
    deliveries: defaultdict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    """By client identifier, in the order in which they came."""
    wrong_sessions: list[str] = field(default_factory=list)
    reused_identifiers: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Messages that nobody published."""
    wrong_retained: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _time: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _numbers: Counter[str] = field(default_factory=Counter)

    # -- notes -----------------------------------------------------------------------------------

    def publish(
        self, publisher: str, topic: str, payload: bytes, qos: int, *, retain: bool
    ) -> Message:
        """A message is about to be published; its payload becomes unique."""
        self._numbers[publisher] += 1
        number = self._numbers[publisher]
        if payload or not retain:
            payload = f"{publisher} {number} ".encode() + payload
        message = Message(publisher, number, topic, payload, qos, retain)
        if payload:
            self.messages[payload] = message
        if retain:
            self.retained[topic].append(message)
        return message

    def sent(self, message: Message) -> None:
        """It is on its way, perhaps."""
        if message.sent_at is None:
            message.sent_at = next(self._time)

    def acknowledged(self, message: Message) -> None:
        """The broker has taken responsibility for it."""
        if message.acknowledged_at is None:
            message.acknowledged_at = next(self._time)

    def completed(self, message: Message) -> None:
        """The exchange is over."""
        message.is_complete = True

    def refused(self, message: Message, reason: int) -> None:
        """The broker said why it did not take it."""
        message.reason = reason

    def received(self, client_id: str, delivered: Delivered) -> None:
        """It has arrived."""
        message = self.messages.get(delivered.payload)
        if message is None or message.topic != delivered.topic:
            self.strangers.append(f"{client_id}: {delivered.topic} {delivered.payload!r}")
            return
        self.deliveries[client_id].append(message)

    def subscribing(self, client_id: str, topic_filter: str, qos: int) -> Subscription:
        """SUBSCRIBE is about to be sent."""
        subscription = Subscription(client_id, topic_filter, qos, next(self._time))
        self.subscriptions.append(subscription)
        return subscription

    def subscribed(self, subscription: Subscription) -> None:
        """SUBACK came."""
        subscription.granted_at = next(self._time)

    def unsubscribing(self, subscription: Subscription) -> None:
        """UNSUBSCRIBE is about to be sent."""
        subscription.left_at = next(self._time)

    def unsubscribed(self, subscription: Subscription) -> None:
        """UNSUBACK came."""
        subscription.gone_at = next(self._time)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for what clients note; whether it came about in time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self.changed.clear()
                    await self.changed.wait()
                    await asyncio.sleep(CHECK_S)
        except TimeoutError:
            return False
        return True

    # -- judgement -------------------------------------------------------------------------------

    @property
    def taken(self) -> list[Message]:
        """The messages that the broker acknowledged."""
        return [m for m in self.messages.values() if m.acknowledged_at is not None and m.qos]

    def owners(self) -> Iterator[tuple[str, list[Subscription], list[Message]]]:
        """Give each owner of messages: a client, or all members of a shared subscription.

        Yields what to call it, its subscriptions, and what it received because of them.
        """
        by_owner: defaultdict[str, list[Subscription]] = defaultdict(list)
        for subscription in self.subscriptions:
            group = subscription.group
            name = subscription.client_id if group is None else "/".join(("$share", *group))
            by_owner[name].append(subscription)
        for name, owned in by_owner.items():
            members = dict.fromkeys(subscription.client_id for subscription in owned)
            got = [message for member in members for message in self.deliveries[member]]
            yield name, owned, got

    def lost(self) -> list[str]:
        """Acknowledged messages that someone whose subscription covered them did not get."""
        found = []
        by_topic: defaultdict[str, list[Message]] = defaultdict(list)
        for message in self.taken:
            by_topic[message.topic].append(message)
        for name, subscriptions, got in self.owners():
            have = set(map(id, got))
            for topic, messages in by_topic.items():
                if not any(matches(s.proper, topic) for s in subscriptions):
                    continue
                found += [
                    f"{name} never got {message}"
                    for message in messages
                    if id(message) not in have and any(s.covers(message) for s in subscriptions)
                ]
        return found

    def doubled(self) -> list[str]:
        """QoS 2 messages that came more than once to one who subscribed at QoS 2."""
        found = []
        for name, subscriptions, got in self.owners():
            for message, times in Counter(got).items():
                granted = [s.qos for s in subscriptions if s.covers(message)]
                if times > 1 and message.qos == 2 and 2 in granted:
                    found.append(f"{name} got {message} {times} times")
        return found

    def disordered(self) -> list[str]:
        """First comings that are not in the order of publishing, per publisher and topic."""
        found = []
        shared = {s.client_id for s in self.subscriptions if s.group is not None}
        for client_id, got in self.deliveries.items():
            if client_id in shared:
                continue
            last: dict[tuple[str, str], Message] = {}
            for message in dict.fromkeys(got):
                before = last.get((message.publisher, message.topic))
                if before is not None and before.number > message.number:
                    found.append(f"{client_id} got {message} after {before.number}")
                last[message.publisher, message.topic] = message
        return found

    def unasked(self) -> list[str]:
        """Return the messages that came without a subscription that was in force, in words."""
        found = []
        by_client: defaultdict[str, list[Subscription]] = defaultdict(list)
        for subscription in self.subscriptions:
            by_client[subscription.client_id].append(subscription)
        for client_id, got in self.deliveries.items():
            for message in dict.fromkeys(got):
                if not any(s.may_cover(message) for s in by_client[client_id]):
                    found.append(f"{client_id} got {message}")
        return found + self.strangers

    def check_retained(self, before: dict[str, int], found: dict[str, bytes]) -> None:
        """Compare what a new subscriber got with what it may have got.

        Args:
            before: `retained_taken` of the moment at which it subscribed.
            found: payloads by topic.

        """
        for topic, history in self.retained.items():
            first = before.get(topic, -1)
            may = [m.payload for m in history[max(first, 0) :] if m.sent_at is not None]
            if first < 0:
                may.append(b"")
            got = found.get(topic, b"")
            if got not in may:
                self.wrong_retained.append(f"{topic} is {got!r}, not one of {may[:3]}")

    def retained_taken(self) -> dict[str, int]:
        """By topic, which of its messages was the last whose exchange is over."""
        return {
            topic: max((i for i, m in enumerate(history) if m.is_complete), default=-1)
            for topic, history in self.retained.items()
        }


class Snapshot(Ledger):
    """The last message that a client got of each topic."""

    def __init__(self) -> None:
        super().__init__()
        self.got: dict[str, bytes] = {}

    def received(self, client_id: str, delivered: Delivered) -> None:
        """It has arrived."""
        self.got[delivered.topic] = delivered.payload
