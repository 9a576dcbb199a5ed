"""The collector as a reader of Kafka's topics: what it read is in its spool, each message once.

It takes all partitions of its topics itself, without a group's rebalancing, and begins where its
spool ends (`kafka_batches`). What it read is synced before more is read, and then the offsets are
committed, for others to see: this collector does not go by them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from cloud_ingest.collector import topic_epochs
from cloud_ingest.collector.kafka_batches import (
    KafkaMessage,
    Made,
    PartitionBatches,
    origin_of,
    topic_of,
)
from cloud_ingest.collector.kafka_settings import KafkaCollectorSettings
from cloud_ingest.collector.kafka_topics import described, partitions_of
from cloud_ingest.collector.source_spool import SourceSpool
from cloud_ingest.collector.topic_epochs import KnownTopic
from gateway.base import wall_clock
from gateway.process.configuration.config import ConfigError

_log = logging.getLogger(__name__)

AT_ONCE = 2_000
"""Messages; then they are synced."""
POLL_S = 0.5
ANSWER_S = 10.0
AGAIN_S = 1.0
AGAIN_MAX_S = 60.0
LOOK_INTERVAL_S = 60.0
"""So often partitions that are new are looked for."""
T = TypeVar("T")
KafkaPlace = tuple[str, int]


class KafkaCollector:
    """One collector process that reads topics.

    Raises:
        ConfigError: the configuration can't be gone by.
        LogError: the spool can't be opened.

    """

    def __init__(self, settings: KafkaCollectorSettings) -> None:
        self._settings = settings
        client = settings.client() | {"error_cb": self._note}
        if settings.kafka.user and settings.kafka.ca_file is None:
            _log.warning("kafka.ca_file: missing, so the password is sent without TLS")
        try:
            self._consumer = Consumer(client)
        except (KafkaException, ValueError) as error:
            raise ConfigError("kafka", str(error)) from error
        self._client = client
        self._spool = SourceSpool(settings.collector, settings.log)
        try:
            self._topics = topic_epochs.read(settings.collector.spool_dir)
        except ValueError as error:
            raise ConfigError("collector.spool_dir", str(error)) from error
        self._parts: dict[KafkaPlace, PartitionBatches] = {}
        self._assigned: frozenset[KafkaPlace] = frozenset()
        self._looked_at_s = 0.0
        self._stored = 0
        self._lost = 0
        self._trouble = ""

    def reload(self) -> None:
        """Nothing is read again without a restart."""
        _log.warning("files are read at a start; restart the collector")

    async def run(self) -> None:
        """Collect until cancelled; keeps `status.json` in the spool's folder up to date."""
        try:
            await self._spool.fill(self._keep_reading(), self._status)
        finally:
            await asyncio.to_thread(self._consumer.close)

    # -- reading ---------------------------------------------------------------------------------

    async def _keep_reading(self) -> None:
        wait_s = AGAIN_S
        while True:
            stored = self._stored
            try:
                await self._begin(again=True)
                while True:
                    if time.monotonic() - self._looked_at_s >= LOOK_INTERVAL_S:
                        await self._begin(again=False)
                    await self._turn()
            except (KafkaException, OSError, TimeoutError) as error:
                self._trouble = str(error) or type(error).__name__
            wait_s = AGAIN_S if self._stored > stored else min(2 * wait_s, AGAIN_MAX_S)
            _log.warning("kafka: %s", self._trouble)
            await asyncio.sleep(wait_s)

    async def _begin(self, *, again: bool) -> None:
        """Read all partitions from where the spool ends; if not again, only where some are new."""
        if again:
            self._assigned = frozenset()
        places = []
        for topic in self._settings.kafka.topics:
            for partition in await self._partitions(topic, asks_id=again):
                at = self._parts[topic, partition].next_offset
                places.append(TopicPartition(topic, partition, at))
        names = frozenset((place.topic, place.partition) for place in places)
        if names != self._assigned:
            await _aside(partial(self._consumer.assign, places))
            self._assigned = names
            _log.info("kafka: reading %d partitions", len(places))
        self._looked_at_s = time.monotonic()
        self._trouble = ""

    async def _partitions(self, topic: str, *, asks_id: bool) -> list[int]:
        before = self._topics.get(topic)
        now = before
        if now is None or asks_id:
            topic_id = await _aside(partial(described, self._client, topic))
            now = topic_epochs.known(before, topic_id)
        if before is not None and now.epoch != before.epoch:
            _log.warning("kafka: topic %s was made anew, and is read from its beginning", topic)
            self._parts = {place: p for place, p in self._parts.items() if place[0] != topic}
            self._assigned = frozenset()
        found = await _aside(partial(partitions_of, self._consumer, topic))
        begins = dict(now.begins)
        is_latest = before is None and self._settings.kafka.start == "latest"
        for partition in found:
            if (topic, partition) not in self._parts:
                origin = origin_of(self._settings.collector.id, topic, partition)
                part = PartitionBatches(origin, now.epoch, 0)
                await self._place(topic, partition, part, begins, is_latest=is_latest)
                self._parts[topic, partition] = part
        now = KnownTopic(now.epoch, now.id, begins)
        if now != before:
            self._topics[topic] = now
            topic_epochs.write(self._settings.collector.spool_dir, self._topics)
        return found

    async def _place(
        self,
        topic: str,
        partition: int,
        part: PartitionBatches,
        begins: dict[int, int],
        *,
        is_latest: bool,
    ) -> None:
        """Find where a partition is read on, by what the spool has of it."""
        place = TopicPartition(topic, partition)
        low, high = await _aside(
            partial(self._consumer.get_watermark_offsets, place, timeout=ANSWER_S)
        )
        have = self._spool.log.have.get((part.origin, part.epoch))
        if have is None:
            at = begins.setdefault(partition, high if is_latest else low)
            await self._store(part.begin_at(at))
        else:
            part.next_offset = have.last
        if part.next_offset > high:
            raise ConfigError(
                "kafka.topics",
                f"{topic}/{partition} ends at offset {high}, and the spool has it up to "
                f"{part.next_offset}: it was made anew or cut off. What it holds now is another "
                "topic's for the tables: read it with another collector.id and spool_dir",
            )
        if lost := part.deleted_to(low):
            self._lost += lost
            _log.error("kafka: %s/%d deleted %d messages unread", topic, partition, lost)

    async def _turn(self) -> None:
        read: list[Message] = await _aside(partial(self._consumer.consume, AT_ONCE, POLL_S))
        found: dict[KafkaPlace, list[KafkaMessage]] = {}
        for message in read:
            if (error := message.error()) is not None:
                self._fail(message, error)
            else:
                place, one = self._taken(message)
                found.setdefault(place, []).append(one)
        before = {place: self._parts[place].next_offset for place in found}
        for place, messages in found.items():
            part = self._parts[place]
            too_large = part.too_large
            await self._store(part.make(messages))
            if part.too_large > too_large:
                _log.error("kafka: %s/%d: a message fits in no batch and is left out", *place)
        if found:
            try:
                await self._synced()
            except OSError:  # the disk may not have it: it is read and stored again
                for place, offset in before.items():
                    self._parts[place].next_offset = offset
                raise
            ends = [TopicPartition(*place, self._parts[place].next_offset) for place in found]
            with contextlib.suppress(KafkaException):  # the spool says where to read
                await _aside(partial(self._consumer.commit, offsets=ends, asynchronous=True))
            self._stored += sum(map(len, found.values()))

    def _fail(self, message: Message, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # as it is documented
            self._parts.pop((str(message.topic()), int(message.partition() or 0)), None)
        raise KafkaException(error)

    def _taken(self, message: Message) -> tuple[KafkaPlace, KafkaMessage]:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        kind, time_ms = message.timestamp()
        has_time = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
        time_us = time_ms * 1_000 if has_time else wall_clock.now_us()
        key, value = message.key(), message.value()
        name = topic
        if self._settings.kafka.key_in_topic:
            name = topic_of(topic, key.encode() if isinstance(key, str) else key)
        payload = value.encode() if isinstance(value, str) else value
        return (topic, partition), KafkaMessage(offset, name, payload, time_us)

    def _note(self, error: KafkaError) -> None:
        """Called in the thread that reads."""
        self._trouble = str(error)

    # -- the spool -------------------------------------------------------------------------------

    async def _store(self, made: Sequence[Made]) -> None:
        for frame, header in made:
            while self._spool.commit.append(frame, header) is not None:  # noqa: ASYNC110  # a disk's
                await asyncio.sleep(AGAIN_S)

    async def _synced(self) -> None:
        """Wait until the disk has all that was appended.

        Raises:
            OSError: it may not have it.

        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settled(error: OSError | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self._spool.commit.settle([settled])
        await done

    def _status(self) -> dict[str, object]:
        parts = self._parts.values()
        return {
            "servers": self._settings.kafka.servers,
            "trouble": self._trouble,
            "stored": self._stored,
            "next_offsets": {f"{t}/{n}": p.next_offset for (t, n), p in self._parts.items()},
            "known_again": sum(part.known_again for part in parts),
            "passed": sum(part.passed for part in parts),
            "too_large": sum(part.too_large for part in parts),
            "deleted_unread": self._lost,
        }


async def _aside(call: Callable[[], T]) -> T:
    """Make a call that waits for Kafka in a thread; one that was begun is waited for."""
    begun = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        await asyncio.wait([begun])  # the consumer is closed behind it
        raise
