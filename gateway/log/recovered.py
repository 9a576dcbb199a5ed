"""Puts together what a start found: what the log holds, and what damage has cost it.

The newest index that can be read tells all numbers that the log ever had by then, those that were
trimmed as well. What damage took is not among what the log has from now on, so that neighbours are
asked for it. That is: what the index of a damaged segment tells and the segment does not; and what
one index has that neither the one before it nor any segment between them explains, where there was
damage between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.log.loading import Loaded, missing
from tree_handler.batch import NOTE_PREFIX, Epoch
from tree_handler.intervals import Intervals

Numbers = dict[Epoch, Intervals]
_NOTHING: Final = Intervals()


def numbers_of(found: Sequence[Loaded]) -> tuple[Numbers, Numbers]:
    """Return what the log has, and what it has lost, by stream.

    Args:
        found: its segments, oldest first.

    """
    readable: Numbers = {}
    have: Numbers = {}
    for one in found:
        if one.ever is not None:
            have = {key: Intervals(numbers) for key, numbers in one.ever.items()}
        else:
            _add(have, one.segment.holds)
        _add(readable, one.segment.holds)
    _add(have, readable)
    lost = missing(_lost(found), readable)
    kept = {key: numbers for key, numbers in lost.items() if not key[0].startswith(NOTE_PREFIX)}
    for key, numbers in kept.items():
        if key in have:
            have[key] = have[key].without(numbers)
    return have, kept


def _lost(found: Sequence[Loaded]) -> Numbers:
    lost: Numbers = {}
    known: Numbers = {}
    is_damaged = has_index = False
    end = found[0].segment.start if found else 0
    for one in found:
        is_hole = one.segment.start != end
        is_damaged = is_damaged or one.is_damaged or is_hole
        end = one.segment.start + one.segment.length
        _add(lost, one.segment.lost)
        if is_hole and one.ever is None:
            firsts = {key: next(iter(held))[0] for key, held in one.segment.holds.items()}
            one.gaps += [(key, 0, first - 1) for key, first in firsts.items()]
        _add(lost, missing(_between(one, known), known))
        _add(known, one.segment.holds)
        if one.ever is not None:
            new = missing(one.ever, known)
            if is_damaged:
                _add(lost, new if has_index else _since(known, new))
            _add(known, new)
            is_damaged, has_index = False, True
    return lost


def _between(one: Loaded, known: Numbers) -> Numbers:
    """Return what is missing between the numbers around damage."""
    gaps: Numbers = {}
    for key, low, high in one.gaps:
        last = low or (known[key].last if key in known else high)
        if last < high:
            gaps.setdefault(key, Intervals()).add(last + 1, high)
    return gaps


def _since(known: Numbers, new: Numbers) -> Numbers:
    """Of each stream, what is not older than all that is there: the rest was trimmed."""
    left: Numbers = {}
    for key, numbers in new.items():
        if key in known:
            first = next(iter(known[key]))[0]
            later = Intervals(pair for pair in numbers if pair[1] > first)
            later.forget_through(first - 1)
            left[key] = later
    return left


def _add(to: Numbers, numbers: Mapping[Epoch, Intervals]) -> None:
    for key, ranges in numbers.items():
        to.setdefault(key, Intervals()).update(ranges)
