"""A spool that holds its share of what a group of collectors is sent; see `sharing`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import msgpack

from cloud_ingest.collector.sharing import KeptNumbers, Sharing, SharingLimits
from cloud_ingest.collector.spooled import SpoolStatement, signed, unsigned
from gateway.base.kept_file import KeptFile
from gateway.log.errors import LogError
from gateway.log.message_log import MessageLog
from gateway.node.links.node import TreeNode
from tree_handler.batch import NOTE_PREFIX, Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.epochs_over import is_over
from tree_handler.replication.repair import pack_numbers, unpack_numbers
from tree_handler.seal import Seals

TOPIC: Final = "$collectors"
FILE_NAME: Final = "shared"
WRITE_INTERVAL_S: Final = 5.0
TICK_S: Final = 0.25

_WITHOUT = "what is in which collector's spool is not known, so none of it is told to the others"

_log = logging.getLogger(__name__)


class SharedSpool:
    """One collector's part in a group.

    Args:
        own: its id and its boot epoch.
        group: ids of all members.
        log: the open spool.
        limits: how long batches are held, and how many bytes of them.
        seals: proves who says what; None where nobody seals.

    """

    def __init__(
        self,
        own: tuple[str, int],
        group: Sequence[str],
        log: MessageLog,
        limits: SharingLimits,
        seals: Seals | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._own_id = own[0]
        self._log = log
        self._limits = limits
        self._seals = seals
        kept, self._known_to, self._is_whole = _read(log)
        for stream, numbers in kept.elsewhere.items():
            log.have.setdefault(stream, Intervals()).update(numbers)
        self.core = Sharing(own, group, kept, limits, self._loop.time())
        self._node: TreeNode | None = None
        self._unsynced: list[Header] = []
        self._has_ended = False
        self._refused = 0
        """Statements that were no member's, or no statements."""

    def ride_on(self, node: TreeNode) -> None:
        """Say and hear over this node's links."""
        self._node = node
        node.direct.hand_to(self._receive)

    def keep(self, frame: bytes, header: Header) -> LogError | None:
        """Spool a batch or hold it: `NodeReceiver.keep`."""
        assert self._node is not None
        if not _is_shared(header):
            return self._node.commit.append(frame, header)
        now = self._loop.time()
        if not self.core.takes(frame, header, now):
            return None
        if (error := self._append(frame, header)) is not None:
            self.core.refused(now)
        return error

    async def run(self) -> None:
        """Tell and look after what is held, until cancelled."""
        said_at = written_at = self._loop.time()
        self.write()
        while True:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            self.core.handle_timer(now)
            self._spool_due(now)
            if now - said_at >= self._limits.say_s:
                said_at = now
                for name in self.core.others:
                    self._tell(name)
            if now - written_at >= WRITE_INTERVAL_S:
                written_at = now
                self.write()

    def write(self) -> None:
        """Note what is in which spool; a disk that does not take it has all of it the next time.

        What this start could not read is not replaced by less: the next start reads it.
        """
        if not self._is_whole:
            return
        assert self._node is not None
        have = self._node.replication.have
        self.core.forget(lambda stream: is_over(have, stream))
        kept = self.core.kept
        numbers = pack_numbers(kept.mine), pack_numbers(kept.elsewhere)
        data: bytes = msgpack.packb([*numbers, self._known_to])
        try:
            _file(self._log).write(data)
        except OSError as error:
            self._node.commit.refusals.count("note of shares that can't be written", str(error))

    def end(self) -> None:
        """Spool what is held, as far as the disk takes it, and write what is known.

        The spool is to be synced behind this.
        """
        assert self._node is not None
        self._has_ended = True
        for held in self.core.all_held():
            if self._node.commit.append(held.frame, held.header) is None:
                self.core.spooled(held)
        self.write()

    def status(self) -> dict[str, Any]:
        """Return who is alive and what is held, ready for JSON."""
        core = self.core
        return {
            "live": sorted(core.live),
            "is_settled": core.is_settled,
            "held_batches": core.held,
            "held_bytes": core.held_bytes,
            "refused": self._refused,
        } | asdict(core.counters)

    # -- within --------------------------------------------------------------------------------

    def _append(self, frame: bytes, header: Header) -> LogError | None:
        assert self._node is not None
        if (error := self._node.commit.append(frame, header)) is None:
            if not self._unsynced:
                self._loop.call_soon(self._settle)
            self._unsynced.append(header)
        return error

    def _settle(self) -> None:
        assert self._node is not None
        headers, self._unsynced = self._unsynced, []
        if self._has_ended:
            return
        self._node.commit.settle([partial(self._settled, headers, self._log.position)])

    def _settled(self, headers: list[Header], position: int, error: OSError | None) -> None:
        if error is not None:  # nobody knows what is on disk, and the others do not hear of it
            self.core.refused(self._loop.time())
        else:
            self._known_to = position
            for header in headers:
                self.core.synced(header)

    def _spool_due(self, now: float) -> None:
        due = self.core.due(now)
        for held in due:
            if self._append(held.frame, held.header) is not None:
                self.core.refused(self._loop.time())
                return
            self.core.spooled(held)

    def _tell(self, name: str) -> None:
        assert self._node is not None
        if not self.core.speaks(self._loop.time()):
            return
        if self._node.direct.way_to(name) is None:  # without a way all gateways would log it
            return
        body = self.core.tell(name).encode()
        signature = b"" if self._seals is None else self._seals.say(body)
        self._node.direct.send(name, TOPIC, signed(body, signature))

    def _receive(self, topic: str, payload: bytes, _: int) -> None:
        if topic != TOPIC:
            return
        try:
            body, signature = unsigned(payload)
            told = SpoolStatement.decode(body)
        except ProtocolError as error:
            self._refused += 1
            _log.warning("from another collector: %s", error)
            return
        if told.sender not in self.core.others or not (
            self._seals is None or self._seals.has_said(told.sender, body, signature)
        ):
            self._refused += 1
            return
        known, goes_on = self.core.receive(told, self._loop.time())
        self._pass_over(known)
        if goes_on:
            self._tell(told.sender)

    def _pass_over(self, known: dict[Epoch, Intervals]) -> None:
        """Do not ask the tree for what another has."""
        assert self._node is not None
        core = self._node.replication
        for stream, numbers in known.items():
            for first, last in numbers.without(core.covered(stream)):
                self._node.exchange.take(core.passed_over(stream, first, last))


def _is_shared(header: Header) -> bool:
    return not (header.control or header.passed or header.origin.startswith(NOTE_PREFIX))


def _read(log: MessageLog) -> tuple[KeptNumbers, int, bool]:
    """Read the file, and what the spool holds since it was written.

    Returns the numbers, the position behind them, and whether all of it could be read.

    Without a file nothing is known of what the spool holds, and none of it is told.
    """
    kept, position, is_whole = KeptNumbers(), log.position, True
    try:
        found = _file(log).read(_numbers)
        if found is None:
            return kept, position, is_whole
        kept, known_to = found
        for _, header in log.read_from(known_to):
            if header.logged and _is_shared(header):
                kept.mine.setdefault(header.stream, Intervals()).add(header.first, header.last)
    except OSError as error:
        is_whole = False
        _log.error("what is in which spool is not known until the next start: %s", error)
    for stream in kept.mine.keys() & log.have.keys():  # damage may have cost it some
        kept.mine[stream] = kept.mine[stream].common(log.have[stream])
    return kept, position, is_whole


def _file(log: MessageLog) -> KeptFile:
    return KeptFile(log.folder / FILE_NAME, _WITHOUT)


def _numbers(data: bytes) -> tuple[KeptNumbers, int]:
    mine, elsewhere, known_to = msgpack.unpackb(data)
    return KeptNumbers(unpack_numbers(mine), unpack_numbers(elsewhere)), int(known_to)
