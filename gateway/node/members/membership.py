"""The records of all gateways: this one's goes out, those of the others come in, and some end.

Records and absences are logged control messages: they reach every gateway by the same guarantee as
any acknowledged message, and a still fleet sends none. When this gateway's log drops its record it
is told anew, for those who join later have it from a log; those of the others go to a file, where a
restart finds what the log holds no more.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gateway.base.event_log import audit
from gateway.base.kept_file import KeptFile
from gateway.base.record_file import RecordFile
from gateway.log.message_log import MessageLog
from gateway.node.links.node import TreeNode
from light_dataclasses import dataclass
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.members.own_record import OwnRecord
from tree_handler.newest_records import NewestRecords
from tree_handler.rate_limit import RateLimit

TOPIC = "$hedgerow/member/"
ABSENT_TOPIC = "$hedgerow/absent/"
FORGOTTEN_TOPIC = "$hedgerow/forgotten/"
"""Beside the notice of an absence, which gateways of a release before know alone."""
FILE_NAME = "members"
_WITHOUT = "gateways of which the log tells nothing are known when they tell of themselves again"
NOTED_AT_ONCE, NOTED_PER_S = 100, 1 / 60
"""Changes of members in the audit trail: a member that comes and goes can't fill it."""
CONTRADICTED_AT_ONCE, CONTRADICTED_PER_S = 3, 1 / 10
"""Notices of this gateway's own absence: each time all gateways are told its record anew."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """The member record that this gateway sent last, over which node, and its place in the log.

    Attributes:
        missed_by: who has said that this gateway is absent, and is to be contradicted.

    """

    node: TreeNode
    record: MemberRecord
    in_log: OwnRecord
    missed_by: str = ""


class Members:
    """All gateways that this one knows, itself included.

    Args:
        folder: where records are kept that the log has dropped.

    """

    def __init__(self, folder: Path) -> None:
        self.known = Membership()
        self._trail = audit.AuditTrail(folder / audit.FILE_NAME)
        self._noted = RateLimit(NOTED_PER_S, NOTED_AT_ONCE)
        self._missed = RateLimit(CONTRADICTED_PER_S, CONTRADICTED_AT_ONCE)
        kept = KeptFile(folder / FILE_NAME, _WITHOUT)
        self._file = RecordFile(kept, "members", self._kept)
        self._told: _Told | None = None
        self._newest: NewestRecords[MemberRecord] = NewestRecords({}, self._epoch_of)

    def recall(self, log: MessageLog) -> None:
        """Take the records that the file has, and those that the log still holds."""
        self._newest = NewestRecords(log.have, self._epoch_of)
        self._file.recall()
        for frame, header in log.control():
            try:
                entries = batch.decode(frame, header)
            except ProtocolError as error:
                _log.warning("%s can't be read: %s", header, error)
                continue
            for entry in entries:
                try:
                    self._take(entry, header, is_news=False)
                except ProtocolError as error:
                    _log.warning("%s from %s: %s", entry.topic, header.origin, error)

    def publish(self, node: TreeNode, record: MemberRecord) -> None:
        """Tell the fleet about this gateway, or what has changed about it."""
        told = self._told
        if told is None:
            self._told = told = _Told(node, record, OwnRecord(record.id, record.epoch))
            node.exchange.tell_of_trims(self._trimmed)
            node.exchange.tell_of_losses(self._lost)
            node.locator.tell_of_moves(self._moved)
        else:
            told.record = record = dataclasses.replace(record, version=told.record.version + 1)
            told.in_log.told()
            told.missed_by = ""
        self.known.replace(record)  # nobody knows better, whatever a log has on it
        entry, first = Entry(TOPIC + record.id, record.encode(), qos=1), node.next_control
        logged = node.publish(entry, control=True)
        if logged is not None:
            logged.add_done_callback(partial(self._is_logged, told, record, first))

    def change(self, **fields: Any) -> None:
        """Tell the fleet what is another one now of this gateway's record; see `MemberRecord`."""
        told = self._told
        if told is not None:
            self.publish(told.node, dataclasses.replace(told.record, **fields))

    def tell_anew(self) -> None:
        """Others may have forgotten this gateway, and the notice that said so: tell its record."""
        self.change()

    def offer(self, offers: bytes) -> None:
        """Tell the fleet another digest of what this gateway's directory has."""
        self.change(offers=offers)

    @staticmethod
    def _is_logged(
        told: _Told, record: MemberRecord, first: int, done: asyncio.Future[None]
    ) -> None:
        """The log has a record, or did not take it: then the next trim brings it again."""
        if record is not told.record or done.cancelled():
            return
        if done.exception() is None:
            told.in_log.logged(first)
        else:
            told.in_log.refused()

    def _trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        self._save()
        told = self._told
        if told is not None and told.in_log.is_to_be_told_anew(kept_from):
            self.publish(told.node, told.record)

    def _lost(self, lost: Mapping[Epoch, Intervals]) -> None:
        told = self._told
        if told is not None and told.in_log.may_be_lost(lost):
            self.publish(told.node, told.record)

    def _save(self) -> None:
        self._file.save(lambda: [record.encode() for record in self.known])

    def read_again(self, now: float) -> None:
        """Take the records of the file now if a start could not: some are in no log any more.

        Contradict notices of this gateway, too, that had to wait.
        """
        self._file.handle_timer(now)
        self._contradict()

    def _kept(self, packed: bytes) -> None:
        self.known.update(MemberRecord.decode(packed))

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a control message; other topics are not this module's.

        Raises:
            ProtocolError: it says nothing that counts; the message names what is wrong.

        """
        self._take(entry, header, is_news=True)

    def _take(self, entry: Entry, header: Header, *, is_news: bool) -> None:
        if entry.topic.startswith(TOPIC):
            self._record(entry, header, is_news=is_news)
        elif entry.topic.startswith(ABSENT_TOPIC):
            self._absence(AbsenceNotice.decode(entry.payload), header, is_news=is_news)
        elif entry.topic.startswith(FORGOTTEN_TOPIC):
            self.known.is_forgotten(AbsenceNotice.decode(entry.payload))

    def take_out(self, node: TreeNode, notice: AbsenceNotice, who: str) -> None:
        """Drop a gateway's record, and have all others drop it.

        Args:
            node: this gateway's.
            notice: whose, and up to which one.
            who: says so, for the audit trail.

        """
        self.known.is_absent(notice)
        self.note(who, "member taken out", notice.id)
        node.publish(Entry(ABSENT_TOPIC + notice.id, notice.encode(), qos=1), control=True)

    def forget(self, node: TreeNode, notice: AbsenceNotice, who: str) -> None:
        """Drop a gateway's record as `take_out` does, and say that it will not come back.

        Nobody tells of it as lost any more. One that does come back is a member again.

        Args:
            node: this gateway's.
            notice: whose, and up to which one.
            who: says so, for the audit trail.

        """
        self.take_out(node, notice, who)
        self.known.is_forgotten(notice)
        node.publish(Entry(FORGOTTEN_TOPIC + notice.id, notice.encode(), qos=1), control=True)

    def note(self, who: str, what: str, gateway_id: str) -> None:
        """Have a change of the fleet's members in the audit trail, as far as there are not many."""
        if self._noted.allow("", time.monotonic()):
            try:
                self._trail.remark(who, what, name=gateway_id)
            except OSError as error:
                _log.error("the audit trail can't be written: %s", error)

    def _record(self, entry: Entry, header: Header, *, is_news: bool) -> None:
        record = MemberRecord.decode(entry.payload)
        if not record.id == header.origin == entry.topic.removeprefix(TOPIC):
            raise ProtocolError("record of another gateway", record.id)
        if is_news and self.known.get(record.id) is None:
            self.note(header.origin, "member joined", record.id)
        self._update(record)

    def _update(self, record: MemberRecord) -> None:
        if self._newest.takes_place(record.id, self.known.latest_epoch(record.id), record):
            self.known.replace(record)
        else:
            self.known.update(record)

    def _epoch_of(self, gateway_id: str) -> int | None:
        return None if self._told is None else self._told.node.locator.epoch_of(gateway_id)

    def _moved(self, now: float) -> None:
        if self._told is not None:
            for record in self._newest.refused_of(self._told.node.locator.reached):
                self._update(record)

    def _absence(self, notice: AbsenceNotice, header: Header, *, is_news: bool) -> None:
        told = self._told
        if told is not None and notice.id == told.record.id:
            self._is_missed(told, notice, header.origin)
            return
        was_known = self.known.get(notice.id) is not None
        if is_news:
            self.known.is_said_absent(notice)
        else:
            self.known.is_absent(notice)
        # One of an earlier life, or out of the log, says nothing of who is there now.
        if is_news and was_known and self.known.get(notice.id) is None:
            _log.info("%s says that %s is absent", header.origin, notice.id)
            self.note(header.origin, "member taken out", notice.id)

    def _is_missed(self, told: _Told, notice: AbsenceNotice, who: str) -> None:
        """Contradict a notice of this gateway: it was only cut off, or somebody lies.

        Of a life that this gateway has not reached there is nothing to contradict. A liar can say
        it again and again, so only so many are contradicted at once: the others by and by, in time
        for those who would take this gateway out by them.
        """
        own = told.record
        is_void = own.epoch == notice.epoch and own.version <= notice.version
        if is_void and self.known.may_be_so(notice):
            told.record = dataclasses.replace(own, version=notice.version)
            told.missed_by = who
            self._contradict()

    def _contradict(self) -> None:
        told = self._told
        if told is not None and told.missed_by and self._missed.allow("", time.monotonic()):
            _log.info("%s has missed this gateway, which tells its record anew", told.missed_by)
            self.publish(told.node, told.record)
