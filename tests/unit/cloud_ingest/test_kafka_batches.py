"""A partition of Kafka as an origin: each offset is a number, in one batch or passed over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.collector import topic_epochs
from cloud_ingest.collector.kafka_batches import KafkaMessage, PartitionBatches, topic_of
from cloud_ingest.collector.kafka_topics import partitions_of
from cloud_ingest.collector.topic_epochs import KnownTopic
from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

OFFSETS = st.sets(st.integers(0, 3_000), max_size=60).map(sorted)
TIME_US = 1_700_000_000_000_000


def message(offset: int, payload: bytes | None = b"1", time_us: int = TIME_US) -> KafkaMessage:
    return KafkaMessage(offset, "meters", payload, time_us)


@given(
    OFFSETS,
    st.sets(st.integers(0, 3_000)),
    st.integers(0, 50),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_each_message_is_in_one_batch_under_its_offset_though_it_is_read_again(
    offsets: list[int], empty: set[int], start: int, kills: list[int]
) -> None:
    start = min(start, offsets[0]) if offsets else start
    spool: dict[Epoch, Intervals] = {}
    found: dict[int, bytes] = {}

    def store(made: list[tuple[bytes, batch.Header]]) -> None:
        for frame, header in made:
            assert batch.check(frame) == header
            have = spool.setdefault(header.stream, Intervals())
            assert have.add(header.first, header.last) == header.count  # nothing twice
            if not header.passed:
                for number, row in enumerate(batch.rows(frame, header), header.first):
                    found[number - 1] = row[2]

    part = PartitionBatches("kafka/k/meters/0", 1, 0)
    store(part.begin_at(start))
    messages = [message(o, None if o in empty else b"%d" % o) for o in offsets]
    at = 0
    for read in kills:  # a part is read and stored; the next life has the spool alone
        store(part.make(messages[at : at + read]))
        have = spool.get((part.origin, 1))
        part = PartitionBatches(part.origin, 1, have.last if have else 0)
        at = max(0, at + read - 3)  # it reads some again
    store(part.make(messages[at:]))
    assert found == {o: b"%d" % o for o in offsets if o not in empty}
    end = max(offsets[-1] + 1 if offsets else 0, start)
    have = spool.get((part.origin, 1), Intervals())
    assert have == (Intervals([(1, end)]) if end else Intervals())  # no gap is left


def test_what_was_deleted_unread_stays_a_gap() -> None:
    part = PartitionBatches("kafka/k/meters/0", 1, 10)
    assert part.deleted_to(25) == 15
    ((_, header),) = part.make([message(25)])
    assert (header.first, header.last, header.passed) == (26, 26, False)


def test_a_message_that_fits_in_no_batch_is_counted_and_what_follows_is_stored() -> None:
    part = PartitionBatches("kafka/k/meters/0", 1, 0)
    made = part.make([message(0), message(1, bytes(batch.MAX_FRAME_BYTES)), message(2)])
    assert [(header.first, header.last) for _, header in made] == [(1, 1), (3, 3)]
    assert part.too_large == 1


def test_messages_of_one_batch_were_written_within_a_second() -> None:
    part = PartitionBatches("kafka/k/meters/0", 1, 0)
    made = part.make([message(n, b"1", TIME_US + n * 400_000) for n in range(6)])
    assert [header.count for _, header in made] == [3, 3]
    assert [header.origin_time_us for _, header in made] == [TIME_US, TIME_US + 1_200_000]


def test_a_key_that_is_text_stands_behind_the_topic() -> None:
    assert topic_of("meters", b"m/7") == "meters/m/7"
    assert topic_of("meters", None) == topic_of("meters", b"\xff") == "meters"
    assert topic_of("meters", b"a+b") == "meters"


def test_what_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    for damaged in (b"", b"\x00", b'{"meters": 7}'):
        (tmp_path / topic_epochs.FILE_NAME).write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{tmp_path}/topics: .* move it away"):
            topic_epochs.read(tmp_path)


def test_a_topic_that_was_made_anew_has_another_epoch_and_one_whose_id_is_learnt_the_same() -> None:
    first = topic_epochs.known(None, "id-1")
    assert topic_epochs.known(first, "id-1") == topic_epochs.known(first, "") == first
    assert topic_epochs.known(first, "id-2").epoch != first.epoch
    without = topic_epochs.known(None, "")
    assert without == KnownTopic(1)
    assert topic_epochs.known(without, "id-1") == KnownTopic(1, "id-1")


class Cluster:
    """Stands for a consumer whose cluster answers with a topic, or with what is wrong with it."""

    def __init__(self, partitions: tuple[int, ...], error: KafkaError | None = None) -> None:
        self._partitions = dict.fromkeys(partitions)
        self._error = error

    def list_topics(self, topic: str, timeout: float) -> Any:
        told = SimpleNamespace(partitions=self._partitions, error=self._error)
        return SimpleNamespace(topics={topic: told})


def test_partitions_are_told_in_their_order_and_what_is_wrong_with_a_topic_is_not_none() -> None:
    consumer: Any = Cluster((2, 0, 1))
    assert partitions_of(consumer, "meters") == [0, 1, 2]
    unreadable: Any = Cluster((), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        partitions_of(unreadable, "meters")
