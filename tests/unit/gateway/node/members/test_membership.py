"""Records outlive what the log drops: its own for those who join later, others' for a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tree_host import until
from unreadable_files import Unopened

from gateway.base.event_log.audit import AuditTrail
from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.members.membership import (
    ABSENT_TOPIC,
    CONTRADICTED_AT_ONCE,
    FILE_NAME,
    NOTED_AT_ONCE,
    TOPIC,
    Members,
)
from tree_handler import batch
from tree_handler.batch import CONTROL_PREFIX, Entry, Flags
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.members.absence import MAX_BELIEVED, AbsenceNotice
from tree_handler.members.member import MAX_VERSION, MemberRecord
from tree_handler.routing.locator import ReachUpdate
from tree_handler.spanning.spanning_tree import Identity, Parameters


def versions(log: MessageLog) -> list[int]:
    """Of the records that the log still holds."""
    return [
        MemberRecord.decode(entry.payload).version
        for frame, header in log.control()
        for entry in batch.decode(frame, header)
        if entry.topic.startswith(TOPIC)
    ]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[TreeNode, MessageLog]]:
    """A node whose log soon drops what it holds."""
    log = MessageLog(folder / "log", segment_bytes=1_000, max_bytes=4_000)
    log.open()
    settings = NodeSettings(
        Credentials("gw", "test", bytes(32)),
        Identity("gw", 1, 1.0, "127.0.0.1"),
        Parameters(hello_s=0.05),
        repair_interval_s=0.05,
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    try:
        yield node, log
    finally:
        await node.stop()
        log.close()


async def fill(node: TreeNode) -> None:
    """Publish more than the log keeps."""
    for _ in range(100):
        kept = node.publish(Entry("x", bytes(100), qos=1))
        assert kept is not None
        await kept


def record(gateway_id: str) -> MemberRecord:
    return MemberRecord(gateway_id, 1, 1, "", "", "10.0.0.1", 1883)


async def test_a_gateways_record_stands_in_its_log_however_much_is_published(
    tmp_path: Path,
) -> None:
    members = Members(tmp_path)
    async with running(tmp_path) as (node, log):
        members.publish(node, record("gw"))
        await until(lambda: versions(log) == [1])
        await fill(node)
        await until(lambda: bool(versions(log)) and min(versions(log)) > 1)
        known = members.known.get("gw")
        assert known is not None
        assert (known.version, known.address) == (max(versions(log)), "10.0.0.1")


async def test_a_restart_knows_the_members_whose_records_its_log_has_dropped(
    tmp_path: Path,
) -> None:
    members = Members(tmp_path)
    async with running(tmp_path) as (node, log):
        members.publish(node, record("gw"))
        members.known.update(record("gw-2"))
        await fill(node)
        await until(lambda: bool(versions(log)) and min(versions(log)) > 1)
        again = Members(tmp_path)
        again.recall(log)
        assert [one.id for one in again.known] == ["gw", "gw-2"]


async def test_a_start_that_cannot_read_the_file_of_members_replaces_it_by_nothing_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Members(tmp_path)
    async with running(tmp_path) as (node, log):
        before.recall(log)
        before.publish(node, record("gw"))
        before.known.update(record("gw-2"))
        await fill(node)
        await until(lambda: bool(versions(log)) and min(versions(log)) > 1)
    unopened = Unopened(monkeypatch, FILE_NAME)
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.recall(log)
        assert [one.id for one in members.known] == ["gw"]
        members.publish(node, record("gw"))
        kept_from = log.position - log.length
        await fill(node)
        await until(lambda: log.position - log.length > kept_from)
        unopened.end()
        again = Members(tmp_path)
        again.recall(log)
        assert [one.id for one in again.known] == ["gw", "gw-2"]


async def test_what_is_saved_of_a_life_that_no_log_knows_gives_way_to_the_one_that_is_there(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.recall(log)
        members.known.update(dataclasses.replace(record("gw-2"), epoch=500))
        members.known.is_absent(AbsenceNotice("gw-3", 500, 1))
        members.publish(node, record("gw"))
        header = batch.passed((CONTROL_PREFIX + "gw-2", 20), 1, 1)[1]
        for other in ("gw-2", "gw-3"):
            now = dataclasses.replace(record(other), epoch=20, address="10.0.0.9")
            header = dataclasses.replace(header, origin=other)
            members.receive(Entry(TOPIC + other, now.encode(), qos=1), header)
        assert [one.address for one in members.known] == ["10.0.0.1", "10.0.0.1"]
        node.locator.locator.forwards([1])
        lives = ReachUpdate(True, {"gw-2": 20, "gw-3": 20})
        node.locator.receive(1, b"", lives.encode(), 0.0)
        assert [one.address for one in members.known] == ["10.0.0.1", "10.0.0.9", "10.0.0.9"]


async def test_a_damaged_file_of_members_costs_no_more_than_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xc1 no records")
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.publish(node, record("gw"))
        await until(lambda: versions(log) == [1])
        again = Members(tmp_path)
        again.recall(log)
        assert [one.id for one in again.known] == ["gw"]
        assert FILE_NAME in caplog.text


@pytest.mark.parametrize("version", [MAX_BELIEVED, MAX_VERSION])
async def test_a_gateway_of_which_another_one_says_what_cannot_be_goes_on_telling_its_record(
    tmp_path: Path, version: int
) -> None:
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.recall(log)
        members.publish(node, record("gw"))
        header = batch.passed((CONTROL_PREFIX + "gw-x", 20), 1, 1)[1]
        liar = AbsenceNotice("gw", record("gw").epoch, version)
        for _ in range(3):
            members.receive(Entry(ABSENT_TOPIC + "gw", liar.encode(), qos=1), header)
            members.change(draining=True)
            (own,) = members.known
            assert own.draining
            assert own.version <= MAX_BELIEVED + 8


async def test_a_notice_of_a_life_that_a_gateway_has_not_reached_does_not_take_it_from_itself(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.recall(log)
        members.publish(node, record("gw"))
        header = batch.passed((CONTROL_PREFIX + "gw-x", 20), 1, 1)[1]
        later = AbsenceNotice("gw", MAX_BOOT_EPOCH, 1)
        members.receive(Entry(ABSENT_TOPIC + "gw", later.encode(), qos=1), header)
        assert members.known.get("gw") == record("gw")
        assert members.known.hierarchy().substitutes("gw") == ()
        again = Members(tmp_path)
        said = [Entry(ABSENT_TOPIC + "gw", later.encode(), qos=1).row()]
        flags = Flags.LOGGED | Flags.CONTROL
        log.append(*batch.make("gw-x", 1, 1, said, flags=flags, origin_time_us=1))
        again.recall(log)  # a start finds the notice in its log
        again.publish(node, record("gw"))
        assert again.known.get("gw") == record("gw")


async def test_a_gateway_that_is_said_to_be_absent_again_and_again_contradicts_by_and_by(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (node, log):
        members = Members(tmp_path)
        members.publish(node, record("gw"))
        header = batch.passed((CONTROL_PREFIX + "gw-x", 20), 1, 1)[1]
        for version in range(10, 10_000, 10):
            said = AbsenceNotice("gw", 1, version)
            members.receive(Entry(ABSENT_TOPIC + "gw", said.encode(), qos=1), header)
        await until(lambda: len(versions(log)) == 1 + CONTRADICTED_AT_ONCE)
        assert max(versions(log)) < 100
        assert members.known.get("gw") is not None
        members.change(draining=True)  # whatever is told next is newer than all that was said
        await until(lambda: max(versions(log)) > 9_990)


def test_who_comes_and_goes_stands_in_the_audit_trail_and_does_not_fill_it(tmp_path: Path) -> None:
    members = Members(tmp_path)

    def come_and_go(gateway_id: str) -> None:
        told = record(gateway_id)
        gone = AbsenceNotice(gateway_id, told.epoch, told.version)
        for origin, entry in (
            (gateway_id, Entry(TOPIC + gateway_id, told.encode())),
            ("root", Entry(ABSENT_TOPIC + gateway_id, gone.encode())),
        ):
            header = SimpleNamespace(origin=origin, epoch=1)
            members.receive(entry, cast(batch.Header, header))

    def trail() -> list[tuple[str, str, object]]:
        found = AuditTrail(tmp_path / "audit.jsonl").changes()
        return [(one.who, one.what, one.of["name"]) for one in found]

    come_and_go("gw-2")
    assert trail() == [("gw-2", "member joined", "gw-2"), ("root", "member taken out", "gw-2")]
    for number in range(1_000):
        come_and_go(f"gw-x{number}")
    assert len(trail()) <= NOTED_AT_ONCE + 2


def test_members_are_known_though_the_trail_can_not_tell_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "audit.jsonl").mkdir()  # nothing can be appended to it
    members = Members(tmp_path)
    told = record("gw-2")
    header = SimpleNamespace(origin="gw-2", epoch=1)
    members.receive(Entry(TOPIC + "gw-2", told.encode()), cast(batch.Header, header))
    assert members.known.get("gw-2") == told
    assert "the audit trail can't be written" in caplog.text
