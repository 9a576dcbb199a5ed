"""This gateway's record of itself goes out, and those of the others come in.

Records are logged control messages: they reach every gateway by the same guarantee as any
acknowledged message, and a still fleet sends none.
"""

from __future__ import annotations

import dataclasses
import logging

from gateway.broker.log.message_log import MessageLog
from gateway.links.node import TreeNode
from tree_handler import batch
from tree_handler.batch import Entry, Header
from tree_handler.errors import ProtocolError
from tree_handler.hierarchy import Membership
from tree_handler.member import MemberRecord

TOPIC = "$hedgerow/member/"

_log = logging.getLogger(__name__)


class Members:
    """All gateways that this one knows, itself included."""

    def __init__(self) -> None:
        self.known = Membership()
        self._own: MemberRecord | None = None

    def recall(self, log: MessageLog) -> None:
        """Take the records that the log still holds."""
        for frame, header in log.control():
            try:
                entries = batch.decode(frame, header)
            except ProtocolError as error:
                _log.warning("%s can't be read: %s", header, error)
                continue
            for entry in entries:
                self.receive(entry, header)

    def publish(self, node: TreeNode, record: MemberRecord) -> None:
        """Tell the fleet about this gateway, or what has changed about it."""
        if self._own is not None:
            record = dataclasses.replace(record, version=self._own.version + 1)
        self._own = record
        self.known.update(record)
        node.publish(Entry(TOPIC + record.id, record.encode(), qos=1), control=True)

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a control message; other topics are not this module's."""
        if not entry.topic.startswith(TOPIC):
            return
        try:
            record = MemberRecord.decode(entry.payload)
        except ProtocolError as error:
            _log.warning("record on %s: %s", entry.topic, error)
            return
        if not record.id == header.origin == entry.topic.removeprefix(TOPIC):
            _log.warning("record of %s on %s from %s", record.id, entry.topic, header.origin)
            return
        self.known.update(record)
