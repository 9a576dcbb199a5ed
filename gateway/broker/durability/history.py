"""The history that the broker asks for and writes to, whatever log is behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from gateway.log.message_log import AfterSync
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals


class LogToTrim(Protocol):
    """A part of the log that goes next; it may be read in a thread."""

    @property
    def behind(self) -> int:
        """The position in the log at which what stays begins."""

    def __len__(self) -> int:
        """Return how many pieces it has; 0 if nothing goes."""

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any of these numbers."""


class History(Protocol):
    """The log as the broker sees it."""

    own: Epoch
    """This gateway's id and boot epoch, under which its frames stand in the log."""

    @property
    def position(self) -> int:
        """Return the position of the next frame."""

    @property
    def max_bytes(self) -> int:
        """Return how large it is to be; what a start needs of it comes on top."""

    def remember(self, frame: bytes, done: AfterSync) -> None:
        """Append a journal frame; ``done`` is told when it is safe, perhaps at once.

        Raises:
            LogError: the log did not take it; ``done`` is not called.

        """

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        """Return all frames of the log from a position on."""

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        """Return the batches of one stream that hold any of these numbers, in sequence."""

    def where(self, key: Epoch, number: int) -> int:
        """Return a position before a message of a stream; that of the end if it is not there."""

    def due(self) -> dict[Epoch, int]:
        """Return the number up to which clients have, or are due, each stream of clients."""

    def lacks(
        self, key: Epoch, first: int, last: int, *, may_wait: bool = False
    ) -> list[tuple[int, int]]:
        """Return those of these numbers that the log never had or has lost: they may come yet.

        Who may wait is told by and by of damage that was met just now.
        """

    def ends_early(self, missing_bytes: int) -> None:
        """A checkpoint knows that the log went on for so much more: it is told and counted."""

    def is_over(self, stream: Epoch) -> bool:
        """Return whether no message of a stream can come any more, and the log has none."""

    def start_sync(self) -> Callable[[], None]:
        """Force to the disk all that the log has; a call for a thread."""

    def goes_next(self, position: int, ahead_bytes: int) -> LogToTrim:
        """Return what goes from a position on before the log has grown by so much more."""

    def may_trim(self, before: int) -> None:
        """Let the log drop what stands before a position: a checkpoint has it, or nobody."""

    @property
    def trims(self) -> int:
        """Return how often the log has dropped its oldest part."""

    def kept_from(self) -> Mapping[Epoch, int]:
        """Return the lowest number that the log still has, by stream."""
