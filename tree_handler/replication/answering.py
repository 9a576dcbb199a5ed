"""Batches of a log, made ready for a neighbour that asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tree_handler import batch
from tree_handler.batch import Epoch, Header


def answer(
    batches: Iterable[tuple[bytes, Header]], seal: batch.Seal | None = None
) -> Iterator[bytes]:
    """Yield what is sent of the batches that the log has of a request.

    Of what is not to leave its origin a statement goes instead, so that the asker need not wait
    for it; of what this gateway alone was passed over, nothing.
    """
    unsaid: tuple[Epoch, int, int] | None = None
    for frame, header in batches:
        stays = header.local and header.logged
        if unsaid is not None and not (
            stays and unsaid[0] == header.stream and unsaid[2] + 1 == header.first
        ):
            yield batch.passed(*unsaid, seal=seal)[0]
            unsaid = None
        if stays:
            first = header.first if unsaid is None else unsaid[1]
            unsaid = header.stream, first, header.last
        elif not header.local:
            yield frame
    if unsaid is not None:
        yield batch.passed(*unsaid, seal=seal)[0]
