"""A collector of Kafka goes on from where its spool ends, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from fleet_gateway import until

from cloud_ingest.collector import from_kafka, status_file, topic_epochs
from cloud_ingest.collector.from_kafka import KafkaCollector
from cloud_ingest.collector.kafka_settings import KafkaCollectorSettings
from gateway.log.errors import LogError
from gateway.node.links.commit import GroupCommit
from gateway.process.configuration.config import ConfigError, load
from tree_handler import batch
from tree_handler.batch import Header

TIME_US = 1_700_000_000_000_000
# As librdkafka numbers its own errors.
TRANSPORT, ALL_BROKERS_DOWN, INVALID_ARG, AUTO_OFFSET_RESET = -195, -187, -186, -140


class Read:
    """A message as a consumer gives it, or an error in its place."""

    def __init__(
        self, offset: int, value: bytes | None = b"1", partition: int = 0, error: int | None = None
    ) -> None:
        self._found = offset, partition, value
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "meters"

    def offset(self) -> int:
        return self._found[0]

    def partition(self) -> int:
        return self._found[1]

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self._found[2]

    def timestamp(self) -> tuple[int, int]:
        return confluent_kafka.TIMESTAMP_CREATE_TIME, TIME_US // 1_000


class ScriptedCluster:
    """Stands for a consumer and its cluster, which has one topic.

    Attributes:
        topic_id: of the topic.
        marks: the first offset and the next one, by partition.
        answers: what the next reads give, or raise; then nothing comes.
        errors: of the whole client; a read tells them, as librdkafka calls back in reads only.
        assigned: where it was told to read, each time.
        committed: what it was told is safe.

    """

    def __init__(self) -> None:
        self.topic_id = "id-1"
        self.marks = {0: (0, 10)}
        self.answers: list[list[Read] | Exception] = []
        self.errors: list[KafkaError] = []
        self.assigned: list[dict[int, int]] = []
        self.committed: list[dict[int, int]] = []
        self.is_closed = False
        self.told: Callable[[KafkaError], None] | None = None

    def list_topics(self, topic: str, timeout: float) -> Any:
        told = SimpleNamespace(partitions=dict.fromkeys(self.marks), error=None)
        return SimpleNamespace(topics={topic: told})

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return self.marks[place.partition]

    def assign(self, places: list[Any]) -> None:
        self.assigned.append({place.partition: place.offset for place in places})

    def consume(self, count: int, timeout: float) -> list[Read]:
        while self.errors and self.told is not None:
            self.told(self.errors.pop(0))
        if not self.answers:
            time.sleep(0.001)
            return []
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def commit(self, offsets: list[Any], *, asynchronous: bool) -> None:
        self.committed.append({place.partition: place.offset for place in offsets})

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    found = ScriptedCluster()

    def consumer(client: dict[str, Any]) -> ScriptedCluster:
        found.told = client["error_cb"]
        return found

    monkeypatch.setattr(from_kafka, "Consumer", consumer)
    monkeypatch.setattr(from_kafka, "described", lambda client, topic: found.topic_id)
    monkeypatch.setattr(from_kafka, "AGAIN_S", 0.0)
    monkeypatch.setattr(status_file, "INTERVAL_S", 0.01)
    return found


def written(folder: Path, more: str = "") -> KafkaCollectorSettings:
    (folder / "spool").mkdir(exist_ok=True)
    file = folder / "collector.toml"
    file.write_text(
        '[collector]\nid = "plant"\nspool_dir = "spool"\n'
        f'[kafka]\nservers = ["k:9092"]\ntopics = ["meters"]\n{more}'
    )
    return load(file, KafkaCollectorSettings)


@asynccontextmanager
async def collecting(folder: Path, more: str = "") -> AsyncIterator[KafkaCollector]:
    collector = KafkaCollector(written(folder, more))
    running = asyncio.create_task(collector.run())
    try:
        yield collector
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def status(folder: Path) -> dict[str, Any]:
    file = folder / "spool" / status_file.NAME
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    return found


def stored(folder: Path) -> list[tuple[int, int, bool]]:
    """First and last number of each batch in the spool, and whether it is passed over."""
    found = []
    for segment in sorted((folder / "spool").glob("*.log")):
        for _, header in batch.frames(segment.read_bytes()):
            found.append((header.first, header.last, bool(header.passed)))
    return found


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname in ("WARNING", "ERROR")]


async def test_what_it_read_is_stored_and_then_committed_and_told(
    tmp_path: Path, cluster: ScriptedCluster
) -> None:
    cluster.answers = [[Read(0), Read(1)], [Read(4)]]
    async with collecting(tmp_path):
        await until(lambda: status(tmp_path).get("stored") == 3)
        told = status(tmp_path)
    assert cluster.committed == [{0: 2}, {0: 5}]
    assert cluster.is_closed
    assert stored(tmp_path) == [(1, 2, False), (3, 4, True), (5, 5, False)]
    assert {key: told[key] for key in ("id", "servers", "trouble", "next_offsets")} == {
        "id": "plant",
        "servers": ["k:9092"],
        "trouble": "",
        "next_offsets": {"meters/0": 5},
    }
    counts = ("known_again", "passed", "too_large", "deleted_unread")
    assert [told[key] for key in counts] == [0, 2, 0, 0]


@pytest.mark.parametrize(("start", "at"), [("earliest", 4), ("latest", 10)])
async def test_a_topic_is_begun_at_its_first_message_or_behind_its_last(
    tmp_path: Path, cluster: ScriptedCluster, start: str, at: int
) -> None:
    cluster.marks = {0: (4, 10)}
    async with collecting(tmp_path, f'start = "{start}"\n'):
        await until(lambda: cluster.assigned)
    assert cluster.assigned == [{0: at}]
    async with collecting(tmp_path, f'start = "{start}"\n'):
        await until(lambda: len(cluster.assigned) == 2)
    assert cluster.assigned == [{0: at}] * 2


async def test_what_was_deleted_before_it_was_read_is_counted_and_told(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.answers = [[Read(0)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
    cluster.marks = {0: (7, 10)}
    async with collecting(tmp_path):
        await until(lambda: status(tmp_path).get("deleted_unread") == 6)
    assert cluster.assigned[-1] == {0: 7}
    assert "kafka: meters/0 deleted 6 messages unread" in warnings(caplog)


async def test_a_spool_that_is_ahead_of_its_partition_ends_it_with_what_to_do(
    tmp_path: Path, cluster: ScriptedCluster
) -> None:
    cluster.answers = [[Read(9)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
    cluster.marks = {0: (0, 9)}
    with pytest.raises(ConfigError, match=r"meters/0 ends at offset 9, .* has it up to 10: "):
        await KafkaCollector(written(tmp_path)).run()


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning_as_another(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.answers = [[Read(0), Read(1)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
        cluster.topic_id, cluster.marks = "id-2", {0: (0, 1)}
        cluster.answers = [KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), [Read(0)]]
        await until(lambda: len(cluster.committed) == 2)
    assert cluster.assigned == [{0: 0}, {0: 0}]
    assert cluster.committed == [{0: 2}, {0: 1}]
    said = "kafka: topic meters was made anew, and is read from its beginning"
    assert said in warnings(caplog)
    (known,) = topic_epochs.read(tmp_path / "spool").values()
    assert known.id == "id-2"


async def test_an_offset_that_the_partition_has_no_more_is_looked_for_again(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.answers = [[Read(0)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
        cluster.marks = {0: (3, 10)}
        cluster.answers = [[Read(0, error=AUTO_OFFSET_RESET)]]
        await until(lambda: len(cluster.assigned) == 2)
        cluster.answers = [[Read(3, error=TRANSPORT)]]
        await until(lambda: len(cluster.assigned) == 3)
    assert cluster.assigned == [{0: 0}, {0: 3}, {0: 3}]
    assert "kafka: meters/0 deleted 2 messages unread" in warnings(caplog)


async def test_partitions_that_are_new_are_read_once_they_are_looked_for(
    tmp_path: Path, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_kafka, "LOOK_INTERVAL_S", 0.0)
    async with collecting(tmp_path):
        await until(lambda: cluster.assigned)
        cluster.marks = {0: (0, 10), 1: (5, 9)}
        await until(lambda: len(cluster.assigned) == 2)
    assert cluster.assigned == [{0: 0}, {0: 0, 1: 5}]


async def test_what_the_disk_may_not_have_is_read_and_stored_again(
    tmp_path: Path,
    cluster: ScriptedCluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, failures = GroupCommit.settle, [OSError("I/O error")]

    def settle(self: GroupCommit, waiting: list[Any]) -> None:
        if failures and waiting:
            for done in waiting:
                done(failures[0])
            failures.clear()
        else:
            whole(self, waiting)

    monkeypatch.setattr(GroupCommit, "settle", settle)
    cluster.answers = [[Read(2), Read(3)], [Read(2), Read(3)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
        await until(lambda: status(tmp_path).get("stored") == 2)
    assert cluster.assigned == [{0: 0}, {0: 0}]
    assert cluster.committed == [{0: 4}]
    assert "kafka: I/O error" in warnings(caplog)


async def test_a_spool_that_is_full_is_asked_again_and_an_end_meanwhile_is_one(
    tmp_path: Path, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Header] = []

    def append(self: GroupCommit, frame: bytes, header: Header) -> LogError | None:
        refused.append(header)
        return LogError("no room")

    cluster.answers = [[Read(0)]]
    with monkeypatch.context() as patch:
        patch.setattr(GroupCommit, "append", append)
        async with collecting(tmp_path):
            await until(lambda: len(refused) >= 2)
    assert cluster.committed == []
    assert {(one.first, one.last) for one in refused} == {(1, 1)}


async def test_a_message_that_fits_in_no_batch_is_told_and_left_out(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.answers = [[Read(0, bytes(batch.MAX_FRAME_BYTES)), Read(1)]]
    async with collecting(tmp_path):
        await until(lambda: cluster.committed)
        await until(lambda: status(tmp_path)["too_large"] == 1)
    assert stored(tmp_path) == [(2, 2, False)]
    assert "kafka: meters/0: a message fits in no batch and is left out" in warnings(caplog)


async def test_trouble_of_the_client_is_told_and_a_reload_says_what_to_do(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(tmp_path) as collector:
        cluster.errors.append(KafkaError(ALL_BROKERS_DOWN))
        await until(lambda: status(tmp_path).get("trouble"))
        assert "ALL_BROKERS_DOWN" in status(tmp_path)["trouble"]
        collector.reload()
    assert warnings(caplog) == ["files are read at a start; restart the collector"]


async def test_a_password_without_tls_is_told_of(
    tmp_path: Path, cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    KafkaCollector(written(tmp_path, 'user = "me"\npassword_file = "password"\n'))
    assert warnings(caplog) == ["kafka.ca_file: missing, so the password is sent without TLS"]


async def test_what_it_can_not_begin_with_is_named(
    tmp_path: Path, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = written(tmp_path)
    (tmp_path / "spool" / topic_epochs.FILE_NAME).write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"^collector\.spool_dir: .*topics: .* move it away"):
        KafkaCollector(settings)

    def refusing(client: dict[str, Any]) -> None:
        raise KafkaException(KafkaError(INVALID_ARG, "no such property"))

    monkeypatch.setattr(from_kafka, "Consumer", refusing)
    with pytest.raises(ConfigError, match=r"^kafka: .*no such property"):
        KafkaCollector(settings)
