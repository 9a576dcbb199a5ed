"""Puts together what a start found: what the log holds, and what damage has cost it.

The newest index that can be read tells all numbers that the log ever had by then. Those that stand
in no segment, and were not deleted to make room (`trimmed`), were lost: whatever became of the
segments that held them, of their indexes, and of a second copy that a neighbour had brought. What
was lost is not among what the log has from now on, so that neighbours are asked for it.

Behind the newest index the numbers next to damage tell what is missing between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.log.loading import Loaded, missing
from tree_handler.batch import NOTE_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over

FoundNumbers = dict[Epoch, Intervals]


def numbers_of(
    found: Sequence[Loaded], trimmed: Mapping[Epoch, Intervals]
) -> tuple[FoundNumbers, FoundNumbers]:
    """Return what the log has, and what it has lost, by stream.

    Args:
        found: its segments, oldest first.
        trimmed: what was deleted to make room.

    """
    readable: FoundNumbers = {}
    have: FoundNumbers = {}
    for one in found:
        if one.index is not None:
            have = {key: Intervals(numbers) for key, numbers in one.index.ever.items()}
            # A second copy was appended where the first one can't be read.
            for key in one.index.holds.keys() & readable.keys():
                readable[key] = readable[key].without(one.index.holds[key])
        _add(readable, one.segment.holds)
    _add(have, readable)
    _add(have, trimmed)
    epochs_over.prune(have)
    lost = _around_damage(found)
    if not any(one.is_unread for one in found):
        _add(lost, have)
    lost = missing(missing(lost, readable), trimmed)
    kept = {
        key: numbers
        for key, numbers in lost.items()
        if not (key[0].startswith(NOTE_PREFIX) or epochs_over.is_over(have, key))
    }
    for key in kept.keys() & have.keys():
        have[key] = have[key].without(kept[key])
    return have, kept


def assumed_trimmed(found: Sequence[Loaded]) -> FoundNumbers:
    """Return what the oldest index tells, and no segment up to it held: but for what that index or
    the newest one knows to be lost, as those of releases do that noted no deletions."""
    held: FoundNumbers = {}
    for one in found:
        _add(held, one.segment.holds)
        if one.index is not None:
            _add(held, one.index.holds)
            _add(held, one.index.lost)
            told = missing(one.index.ever, held)
            newest = next(other.index for other in reversed(found) if other.index is not None)
            return missing(told, missing(told, newest.ever))
    return {}


def _around_damage(found: Sequence[Loaded]) -> FoundNumbers:
    lost: FoundNumbers = {}
    known: FoundNumbers = {}
    end = found[0].segment.start if found else 0
    for one in found:
        if one.segment.start != end and one.index is None:
            firsts = {key: next(iter(held))[0] for key, held in one.segment.holds.items()}
            one.gaps += [(key, 0, first - 1) for key, first in firsts.items()]
        end = one.segment.start + one.segment.length
        for key, low, high in one.gaps:
            last = low or (known[key].last if key in known else high)
            if last < high:
                lost.setdefault(key, Intervals()).add(last + 1, high)
        _add(known, one.segment.holds if one.index is None else one.index.ever)
    return lost


def _add(to: FoundNumbers, numbers: Mapping[Epoch, Intervals]) -> None:
    for key, ranges in numbers.items():
        to.setdefault(key, Intervals()).update(ranges)
