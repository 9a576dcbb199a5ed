"""Batches of what a Kafka topic holds: a partition is an origin, and a message's offset its number.

No Kafka here and no clock. Number = offset + 1, since numbers begin with 1. So what is read again
after a kill has the numbers that it had, and is dropped by them. Offsets that a partition does not
have (compacted, aborted, marks of transactions, tombstones) are stated as passed over, so that
nobody looks for them; those that it had and deleted before they were read stay a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tree_handler import batch
from tree_handler.batch import Flags, Header, Row
from tree_handler.errors import BatchError

MAX_ORIGIN_BYTES: Final = 255
SAME_TIME_US: Final = 1_000_000
"""Messages of one batch were written within so long, for it has one time."""
Made = tuple[bytes, Header]


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """One message of a partition.

    Attributes:
        offset: in its partition.
        topic: under which it stands in the spool.
        payload: its value; None for a tombstone.
        time_us: when it was written, microseconds since 1970.

    """

    offset: int
    topic: str
    payload: bytes | None
    time_us: int


def origin_of(name: str, topic: str, partition: int) -> str:
    """Return whose messages those of a partition are."""
    return f"kafka/{name}/{topic}/{partition}"


def topic_of(topic: str, key: bytes | None) -> str:
    """Return a topic with a message's key as its last levels, where that is text that a topic may
    have."""
    if not key:
        return topic
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return topic
    return topic if any(character in text for character in "+#\0") else f"{topic}/{text}"


class PartitionBatches:
    """Makes the batches of one partition, in the order of its offsets.

    Args:
        origin: see `origin_of`.
        epoch: tells a topic from one of the same name before it.
        next_offset: the first that the spool does not have.

    Attributes:
        next_offset: the first of which nothing was made.
        known_again: messages that came and were made into batches before.
        passed: offsets that there are not, or that hold nothing.
        too_large: messages that fit in no batch; they stay a gap.

    """

    def __init__(self, origin: str, epoch: int, next_offset: int) -> None:
        self.origin = origin
        self.epoch = epoch
        self.next_offset = next_offset
        self.known_again = 0
        self.passed = 0
        self.too_large = 0

    def begin_at(self, offset: int) -> list[Made]:
        """Return a partition of which nothing is stored is read from here: what is before is
        passed."""
        return list(self._pass_to(offset))

    def deleted_to(self, offset: int) -> int:
        """Return how many were not read of all before this, which the partition has no more: a
        gap."""
        lost = max(0, offset - self.next_offset)
        self.next_offset += lost
        return lost

    def make(self, messages: Sequence[KafkaMessage]) -> list[Made]:
        """Return what the spool is to have of these, in this order."""
        made: list[Made] = []
        run: list[KafkaMessage] = []
        for message in messages:
            if message.offset < self.next_offset + len(run):
                self.known_again += 1
                continue
            is_next = message.offset == self.next_offset + len(run)
            fits = not run or abs(message.time_us - run[0].time_us) < SAME_TIME_US
            if run and not (is_next and fits and message.payload is not None):
                made += self._batches(run)
                run = []
            if not is_next:
                made += self._pass_to(message.offset)
            if message.payload is None:
                made += self._pass_to(message.offset + 1)
            else:
                run.append(message)
        return [*made, *self._batches(run)]

    def _batches(self, run: Sequence[KafkaMessage]) -> Iterator[Made]:
        rows: list[Row] = [(message.topic, 1, message.payload) for message in run]
        at = 0
        for part in batch.cut(rows) if rows else ():
            time_us = max(0, run[at].time_us)
            at += len(part)
            first = self.next_offset + 1
            self.next_offset += len(part)
            try:
                yield batch.make(
                    self.origin,
                    self.epoch,
                    first,
                    part,
                    flags=Flags.LOGGED,
                    origin_time_us=time_us,
                )
            except BatchError:  # one message, which is a batch of its own
                self.too_large += len(part)

    def _pass_to(self, offset: int) -> Iterator[Made]:
        while self.next_offset < offset:
            last = min(offset, self.next_offset + batch.MAX_PASSED)
            self.passed += last - self.next_offset
            stream = (self.origin, self.epoch)
            made = batch.passed(stream, self.next_offset + 1, last)
            self.next_offset = last
            yield made
