"""The order in which the messages of an origin's lives were given to clients.

Each boot epoch of an origin numbers its messages anew. Epochs grow from life to life, unless the
disk was lost: then the number is drawn again and may be lower. So it is the history that tells:

* this gateway's own lives follow each other as its log has them, where a batch stands in the life
  that numbered it;
* another's epoch, and a life of this gateway's that its log did not have and that a neighbour
  brought, is given out from its note in the log on (`replication.epoch_order`): by then
  the epochs before it are complete, though repair may have brought them later.
"""

from __future__ import annotations

from collections.abc import Iterable

from tree_handler.batch import NOTE_PREFIX, Epoch, Header
from tree_handler.replication.epoch_order import NUMBERED_AS


class Lives:
    """The streams of clients' messages, as the history is read.

    Args:
        own: id of this gateway.

    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._order: dict[Epoch, None] = {}
        self._waiting: set[Epoch] = set()
        """Of these there are messages, which were not given out yet."""
        self._opened: dict[str, int] = {}

    def came(self, stream: Epoch, life: int) -> None:
        """The log has a batch of this stream.

        Args:
            stream: whose it is.
            life: in which life of this gateway it came; 0 if that is not known.

        """
        if stream in self._order:
            return
        is_present = stream[0] == self._own and life in (0, stream[1])
        if is_present or stream[1] <= self._opened.get(stream[0], 0):
            self.was_given(stream)
        else:
            self._waiting.add(stream)

    def was_given(self, stream: Epoch) -> None:
        """Clients were given messages of it, by a mark of the journal or in a checkpoint."""
        self._order.setdefault(stream)
        self._waiting.discard(stream)

    def noted(self, header: Header) -> None:
        """The log has a note; most are not about the order."""
        name, kind = header.stream
        if kind != NUMBERED_AS or not name.startswith(NOTE_PREFIX):
            return
        origin = name.removeprefix(NOTE_PREFIX)
        self._opened[origin] = max(self._opened.get(origin, 0), header.last)
        for stream in sorted(self._waiting):
            if stream[0] == origin and stream[1] <= header.last:
                self.was_given(stream)

    def in_order(self, streams: Iterable[Epoch]) -> list[Epoch]:
        """Return these streams, an origin's earlier ones first."""
        asked = set(streams)
        return [s for s in self._order if s in asked] + sorted(asked - self._order.keys())
