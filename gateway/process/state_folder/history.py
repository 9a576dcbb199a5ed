"""The message log behind the broker's `History`: a start reads it, and the journal goes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gateway.base import wall_clock
from gateway.log.message_log import AfterSync
from gateway.log.segments_to_trim import SegmentsToTrim
from gateway.node.links.node import TreeNode
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header
from tree_handler.replication import epochs_over


class LogHistory:
    """The message log of one gateway, for its broker: a `History` of `broker.durability.history`.

    Args:
        node: which alone writes the log.
        own: the gateway's id and boot epoch.

    Attributes:
        trims: how often the log has let its oldest part go.

    """

    def __init__(self, node: TreeNode, own: Epoch) -> None:
        self.own = own
        self._node = node
        self._log = node.log
        self.trims = 0
        node.exchange.tell_of_trims(self._trimmed)

    @property
    def position(self) -> int:
        """Return the position of the next frame."""
        return self._log.position

    @property
    def max_bytes(self) -> int:
        """Return the most bytes that it is to have; what a start needs of it comes on top."""
        return self._log.max_bytes

    def remember(self, frame: bytes, done: AfterSync) -> None:
        """Append a journal frame, behind all published so far.

        The batch that it stands in is numbered as the next logged message will be.

        Args:
            frame: what to remember.
            done: called once when it is safe, perhaps at once, or with the error of a sync that
                failed.

        Raises:
            LogError: the log did not take it; ``done`` is not called.

        """
        self._node.origin.flush()
        commit, now_us = self._node.commit, wall_clock.now_us()
        number = self._node.replication.next_logged
        row = ("", 0, frame)
        refused = commit.append(
            *batch.make(*self.own, number, [row], flags=Flags.LOCAL, origin_time_us=now_us)
        )
        if refused is not None:
            raise refused
        commit.settle([done])

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        """Return all frames of the log from a position on."""
        return self._log.read_from(position)

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any of these numbers, in sequence."""
        return self._log.in_sequence(key, first, last)

    def where(self, key: Epoch, number: int) -> int:
        """Return a position before a message of a stream; that of the end if it is not there."""
        return self._log.where(key, number)

    def due(self) -> dict[Epoch, int]:
        """Return the number up to which clients have, or are due, each stream of clients."""
        core = self._node.replication
        return {
            stream: core.handed_out(stream) for stream in self._log.have if core.is_clients(stream)
        }

    def lacks(
        self, key: Epoch, first: int, last: int, *, may_wait: bool = False
    ) -> list[tuple[int, int]]:
        """Return those of these numbers that the log never had or has lost: they may come yet.

        What was lost is known as soon as its damage was met, or, to who may wait, when the segment
        was looked through in a thread.
        """
        if may_wait:
            self._node.exchange.surveys.begin()
        else:
            while self._node.exchange.look_through_damage():
                pass
        return self._node.replication.covered(key).missing(first, last)

    def ends_early(self, missing_bytes: int) -> None:
        """A checkpoint knows that the log went on for so much more: it is told and counted."""
        self._log.ends_early(missing_bytes)

    def is_over(self, stream: Epoch) -> bool:
        """Return whether no message of a stream can come any more, and the log has none."""
        return epochs_over.is_over(self._log.have, stream)

    def start_sync(self) -> Callable[[], None]:
        """Force to the disk all that the log has; a call for a thread."""
        return self._log.start_sync()

    def goes_next(self, position: int, ahead_bytes: int) -> SegmentsToTrim:
        """Return what goes from a position on before the log has grown by so much more."""
        return self._log.goes_next(position, ahead_bytes)

    def may_trim(self, before: int) -> None:
        """Let the log drop what is before a position: a checkpoint has it, or nobody needs it."""
        self._log.may_trim(before)

    def kept_from(self) -> Mapping[Epoch, int]:
        """Return the lowest number that the log still has, by stream."""
        return self._log.kept_from()

    def _trimmed(self, _: Mapping[Epoch, int]) -> None:
        self.trims += 1
