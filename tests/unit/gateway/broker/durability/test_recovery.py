"""A start that reads its log again: what does not fit is told, and nothing else is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from surroundings import hooks

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.journal import Event, Journal, Operation, SessionRecord
from gateway.broker.durability.recovered import RecoveryCounts
from gateway.broker.durability.saved import Checkpoint, SavedPlaces, SavedSession
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client
from gateway.broker.limits import Limits
from gateway.broker.sessions.places import Places, WaitingRun
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.mqtt import Publish, Will, decode, packet_end
from tests.simulation.memory_log import Disk, MachineClocks, MemoryLog
from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Epoch, Flags, Row
from tree_handler.holders import Holders, SharedGroup, with_holders
from tree_handler.intervals import Intervals
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import EXPIRY, Retained
from tree_handler.sharing.rule import EachGateway

FIRST: Epoch = ("gw", 1)
"""The stream of the life whose log is read."""
OTHER: Epoch = ("other", 7)
QOS_1, QOS_2 = 2, 4


class Found:
    """A log as a life of a broker left it, written by hand, and the start that reads it."""

    def __init__(self, folder: Path) -> None:
        self.disk, self.clocks = Disk(), MachineClocks()
        self.log = MemoryLog(self.disk, 1, 1 << 30, self.clocks, sync=False)
        self.journal = Journal(FIRST)
        self.store = Store(folder / "broker.sqlite3")
        self.core: DataPlane
        self.durable: DurablePersistence
        self.next: MemoryLog
        """The log of the life that reads."""

    def session(self, name: str, topic_filter: str = "t/#", qos: int = 2) -> SessionRecord:
        """One that is durable and has subscribed."""
        record = self.journal.open()
        self.journal.opened(record, Client(name, None, "", 5), 3_600)
        record.subscribed(topic_filter, Subscription(qos))
        return record

    def write(self) -> None:
        """Write a frame of the journal."""
        self.frame(self.journal.frame())
        self.journal.has_written()

    def frame(self, data: bytes) -> None:
        self.log.remember(data, lambda error: None)

    def messages(self, *rows: Row) -> None:
        """Clients of this gateway publish these."""
        self.log.commit(rows, (), None)

    def start(self, **around: Any) -> RecoveryCounts:
        log = self.next = MemoryLog(self.disk, 2, 1 << 30, self.clocks, sync=False)
        self.durable = DurablePersistence(log, LastingClock(self.clocks, 2), lambda: 0.0)
        made = hooks(commit=log.commit, **around)
        self.core = DataPlane(made, Limits(), self.durable, now=lambda: 0.0)
        return self.core.recover(self.durable, log, self.store, self.store.load())

    def restored(self, name: str = "c") -> Session:
        session = self.core.sessions.get(name)
        assert session is not None
        return session

    def waits(self, name: str = "c") -> list[bytes]:
        """The payloads that a client is sent when it comes."""
        packets = self.restored(name).outgoing.begin(5, 99, None, 0.0)
        return [
            sent.payload if isinstance(sent := _read(p), Publish) else b"PUBREL" for p in packets
        ]


def _read(packet: bytes) -> Any:
    bounds = packet_end(packet, 0, 1 << 24)
    assert bounds is not None
    return decode(packet[0], packet[bounds[0] :], 5)


@pytest.fixture
async def found(tmp_path: Path) -> Found:
    return Found(tmp_path)


def told(stamp: int, topic: str = "t/told") -> Retained:
    return Retained(topic, RetainedVersion(stamp, 0, *OTHER), 4, 1, b"told", {}, None)


def not_a_frame(found: Found, _: SessionRecord) -> None:
    found.frame(b"\xc1")


def of_unknown_kind(found: Found, _: SessionRecord) -> None:
    found.frame(b"\x93\x91\x92\xcc\xc8\x00\x90\x90")


def two_entries(found: Found, _: SessionRecord) -> None:
    row: Row = ("", 0, b"x")
    frame, _header = batch.make(*FIRST, 1, [row, row], flags=Flags.LOCAL, origin_time_us=0)
    found.disk.frames.append(frame)


def away_of_nobody(found: Found, _: SessionRecord) -> None:
    found.journal.noted(None, Event.AWAY, 99, 0)


def leaves_nobody(found: Found, _: SessionRecord) -> None:
    SessionRecord(99, found.journal).leaves({17: ("g", "t/#")})


def learnt_of_too_few_fields(found: Found, _: SessionRecord) -> None:
    found.journal.noted(None, Event.LEARNT, told(1).row())


def learnt_on_a_filter(found: Found, _: SessionRecord) -> None:
    found.journal.learnt(told(1, "t/#").row(), is_news=True)


def answer_to_what_is_not_next(found: Found, record: SessionRecord) -> None:
    record.sent(1, QOS_2, (FIRST, 1))
    record.note_only(Operation.PUBACK, 1)


def sent_what_it_had_not_got(found: Found, record: SessionRecord) -> None:
    found.messages(("u/1", 1, b"to which it has not subscribed"))
    record.sent(9, QOS_1, (FIRST, 2))


def subscribed_too_deep(_: Found, record: SessionRecord) -> None:
    record.subscribed("a/" * 64, Subscription(1))


def topic_that_is_none(found: Found, _: SessionRecord) -> None:
    found.write()
    found.messages(("t/#", 1, b"nobody can have it"))


STRANGE: dict[str, tuple[Callable[[Found, SessionRecord], None], str]] = {
    "no frame": (not_a_frame, "journal frame: "),
    "an event of another release": (of_unknown_kind, "journal frame: 200 is not a valid Event"),
    "two entries": (two_entries, "too many values"),
    "away of nobody": (away_of_nobody, "AWAY of session 99, which there is not"),
    "leaves of nobody": (leaves_nobody, "LEAVES of session 99, which there is not"),
    "learnt with too few fields": (learnt_of_too_few_fields, "journal event"),
    "learnt on a filter": (learnt_on_a_filter, "t/#"),
    "an answer that is not next": (answer_to_what_is_not_next, "'c' (): "),
    "sent without having it": (sent_what_it_had_not_got, "which it had not got"),
    "a filter over a limit": (subscribed_too_deep, "'c' (): "),
    "a topic that is none": (topic_that_is_none, "t/#"),
}


@pytest.mark.parametrize("name", STRANGE)
async def test_what_does_not_fit_is_counted_and_told_and_what_stands_around_it_is_restored(
    found: Found, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    strange, why = STRANGE[name]
    record = found.session("c")
    found.write()
    found.messages(("t/1", 2, b"before"))
    strange(found, record)
    found.write()
    found.messages(("t/2", 1, b"behind"))
    with caplog.at_level(logging.WARNING):
        counts = found.start()
    assert (counts.sessions, counts.odd) == (1, 1)
    [line] = [one for one in caplog.messages if one.startswith("recovery: ")]
    assert why in line
    assert found.waits() == [b"before", b"behind"]


async def test_a_message_of_qos_2_that_its_client_refused_is_over_behind_a_start(
    found: Found,
) -> None:
    """[MQTT-4.3.3-4]: no PUBREL follows; its identifier is free."""
    record = found.session("c")
    found.write()
    found.messages(("t/1", 2, b"refused"), ("t/2", 2, b"taken"))
    record.sent(1, QOS_2, (FIRST, 1))
    record.sent(2, QOS_2, (FIRST, 2))
    record.note(Operation.REFUSED, 1)
    record.note(Operation.PUBREC, 2)
    found.write()
    assert found.start().odd == 0
    assert found.restored().outgoing.inflight == {2: None}
    assert found.waits() == [b"PUBREL"]


async def test_how_long_a_message_waited_is_not_known_by_a_clock_that_has_begun_anew(
    found: Found,
) -> None:
    found.session("c")
    found.write()
    found.messages(("t/1", 1, b"x", {EXPIRY: 60}))
    found.clocks.pass_s(50)
    found.start()
    assert not found.durable.clock.goes_on
    [(message, _, _)] = found.restored().outgoing.backlog.in_memory()
    assert message.expires_at_s == 60.0


async def test_what_the_log_lacked_and_has_again_is_lacked_no_more(
    found: Found, caplog: pytest.LogCaptureFixture
) -> None:
    gone: Epoch = ("gone", 1)
    lacking = DeliveryGaps()
    for stream in (OTHER, gone):
        lacking.lost(stream, 3, 4)
    found.store.save(Checkpoint(delivered={OTHER: 9, gone: 9}, lacking=lacking.saved()))
    found.disk.have[OTHER] = Intervals([(1, MAX_NUMBER)])
    found.disk.have[gone] = Intervals([(1, 2), (5, 9)])
    found.start()
    assert list(found.durable.lacking.streams) == [gone]
    assert [one.split(";")[0] for one in caplog.messages] == [
        "messages that clients were given, and that the log has lost: 2 of gone, boot 1"
    ]


async def test_a_member_whose_session_has_ended_is_not_chosen_at_a_start(found: Found) -> None:
    first = found.session("first", "$share/g/t/#")
    found.session("second", "$share/g/t/#")
    found.write()
    found.messages(("t/1", 1, b"x"))
    found.journal.has_delivered(FIRST, 1)
    found.journal.ended(first)
    found.write()
    assert found.start().odd == 0
    assert found.core.sessions.get("first") is None
    assert found.waits("second") == [b"x"]


async def test_who_published_what_is_known_again_if_the_batch_came_that_it_was_said_of(
    found: Found,
) -> None:
    """Its identifier is taken [MQTT-4.3.3-10], and No Local holds [MQTT-3.8.3-3]."""
    record = found.session("c")
    record.subscribed("t/#", Subscription(2, no_local=True))
    found.journal.publishes(record, 1, 7)
    found.journal.publishes(record, 3, 0)
    found.write()
    found.messages(*[("t/1", 2, b"%d" % number) for number in range(5)])
    found.journal.publishes(record, 0, 8)
    found.write()
    found.journal.must_precede()
    found.write()
    found.messages(("t/1", 2, b"of somebody else"))
    assert found.start().odd == 0
    assert list(found.restored().incoming) == [7]
    assert found.waits() == [b"0", b"2", b"4", b"of somebody else"]


async def test_what_the_log_lets_go_while_a_session_waits_for_it_is_counted_with_a_sweep(
    found: Found,
) -> None:
    found.session("c", "other")
    found.write()
    found.messages(("t/1", 1, b"1"), ("t/2", 1, b"2"))
    found.messages(("t/3", 1, b"3"))
    found.start()
    checkpoints = found.core.checkpoints
    assert checkpoints is not None
    places = Places()
    places.add(WaitingRun((FIRST, QOS_1, ()), 1, 3))
    found.restored().outgoing.backlog.restore(places)
    last = len(found.next.frames[-1]) + len(found.next.frames[-2])
    found.next.allowed = found.next.position
    found.next.trim(last)
    found.core.sweep()
    await checkpoints.losses.stop()
    assert (found.core.budget.trimmed, found.restored().outgoing.backlog.count) == (2, 1)
    assert found.waits() == [b"3"]


async def test_what_the_log_let_go_before_a_start_is_counted_with_what_goes_later(
    found: Found,
) -> None:
    client = Client.away("c", None, "", 5)
    waits = SavedPlaces(FIRST, (1, 3), QOS_1, ())
    session = SavedSession(1, client, 3_600, 0, (), {"t/#": Subscription(1)}, [], [waits], 0)
    found.store.save(Checkpoint(next_session=2, delivered={FIRST: 3}, sessions=[session]))
    for number in (b"1", b"2", b"3"):
        found.messages(("t", 1, number))
    found.log.allowed = found.log.position
    found.log.trim(sum(map(len, found.disk.frames[-1:])))
    # Its client took the last one before the end: that is read in the log, where two are missing.
    found.journal.open().sent(7, QOS_1, (FIRST, 3))
    found.write()
    found.start()
    assert found.core.budget.trimmed == 2
    assert found.waits() == [b"3"]


class Named(EachGateway):
    """Members of a gateway get what names it, and nothing else."""

    def gives(self, origin: str, holders: Holders, group: SharedGroup) -> bool:
        return (*group, "gw") in holders


async def test_of_what_the_journal_says_it_chose_the_member_has_also_what_names_nobody(
    found: Found,
) -> None:
    """Its origin was not known to name any then; what nobody was chosen for goes by the rule."""
    record = found.session("c", "$share/g/t/#")
    found.write()
    group = ("g", "t/#")
    for number, holder in enumerate(("", "gw", "b", "", "gw", "b"), 1):
        row: Row = ("t/1", 1, f"{number} {holder}".encode())
        holders = ((*group, holder),) if holder else ()
        found.log.receive(OTHER, number, with_holders(row, holders))
    found.journal.has_delivered(OTHER, 6)
    for number in (1, 2):
        found.journal.shared(group, (OTHER, number), record)
    found.write()
    assert found.start(groups=Named()).odd == 0
    assert found.waits() == [b"1 ", b"2 gw", b"5 gw"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_will_that_stood_is_published_when_who_decides_on_it_has_answered(
    found: Found, *, allowed: bool
) -> None:
    async def may_publish(client: Client, topic: str) -> bool:
        return allowed

    found.session("c")
    found.write()
    life = DurablePersistence(found.log, LastingClock(found.clocks, 1), lambda: 0.0)
    life.will_stands(Client("gone", None, "", 5), Will("t/will", b"gone", 1))
    life.write()
    found.start(may_publish=may_publish)
    assert found.waits() == []
    for _ in range(5):
        await asyncio.sleep(0)
    assert found.core.refusals.counts == ({} if allowed else {"will to a forbidden topic": 1})
    waiting = [one[0].payload for one in found.restored().outgoing.left_behind() if one]
    assert waiting == ([b"gone"] if allowed else [])


async def test_what_another_gateway_published_where_nobody_may_is_given_to_nobody_at_a_start(
    found: Found,
) -> None:
    found.session("c", "$SYS/#")
    found.session("d", "#")
    found.write()
    for number, topic in enumerate(("$SYS/forged", "plain"), 1):
        found.log.receive(OTHER, number, (topic, 1 | 4, topic.encode(), {-1: (5, number)}))
    assert found.start().odd == 0
    assert (found.waits("c"), found.waits("d")) == ([], [b"plain"])
    assert found.core.retention.get("$SYS/forged") is None
