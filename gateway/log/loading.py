"""Loading of segments: what a start learns of each that it finds."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from gateway.base import replaced_file
from gateway.base.kept_file import is_at_fault
from gateway.log.damage import Damage
from gateway.log.index import SUFFIX, IndexedNumbers, SegmentIndex
from gateway.log.inner_starts import InnerStarts
from gateway.log.segment import Segment
from light_dataclasses import dataclass
from tree_handler.batch import Epoch, Header
from tree_handler.batch_walk import (
    DamagedBytes,
    is_any_behind,
    is_beginning,
    is_unwritten,
)
from tree_handler.intervals import Intervals

_DIGITS: Final = "[0-9]" * 20
_NAME: Final = re.compile(r"\d{20}\.log")
_NOTHING: Final = Intervals()
_UNWRITTEN: Final = "zeros, as a power cut leaves where the disk did not have what was appended"


@dataclass(slots=True)
class Loaded:
    """One segment.

    Attributes:
        segment: what can be read of it.
        index: what is told beside it, if that can be read and is of this segment.
        gaps: by stream, the last number before damage and the one before the first behind it; 0
            for the former where the segment holds none.
        is_damaged: whether a part of it can't be read, and nothing tells what stood there.
        is_unread: whether it can't be read now, and nothing tells what stands there.
        is_gone: whether there is no such file any more.
        cut_bytes: of the beginning of a batch that a kill left, which was cut off.

    """

    segment: Segment
    index: SegmentIndex | None = None
    gaps: list[tuple[Epoch, int, int]] = field(default_factory=list)
    is_damaged: bool = False
    is_unread: bool = False
    is_gone: bool = False
    cut_bytes: int = 0


def listed(folder: Path, before: int) -> list[Path]:
    """Return the segments that are there, or of which an index tells, oldest first.

    An index from before this position is what is left of a segment that was deleted: it goes too.
    """
    paths = set(folder.glob(f"{_DIGITS}.log"))
    for index in folder.glob(f"{_DIGITS}{SUFFIX}"):
        if (path := index.with_suffix(".log")) not in paths and int(index.stem) < before:
            index.unlink(missing_ok=True)
        else:
            paths.add(path)
    return sorted(paths)


def found(
    paths: Sequence[Path], promised: int, inner: InnerStarts, damage: Damage
) -> tuple[list[Loaded], bool]:
    """Load segments; return them, and whether the newest one is appended to.

    What a kill left at its end is cut off.

    Args:
        paths: all of them, oldest first.
        promised: bytes of the newest one up to here were told to be safe.
        inner: the notes of the log.
        damage: told of what can't be read, which is left out.

    Raises:
        OSError: the newest one can't be read or cut.

    """
    loaded = [
        _sealed(path, int(after.stem), damage) if path.exists() else _gone(path, damage)
        for path, after in itertools.pairwise(paths)
    ]
    goes_on = False
    if paths and paths[-1].exists():
        newest, goes_on = _last(paths, promised, inner, damage)
        loaded.append(newest)
    elif paths:
        loaded.append(_gone(paths[-1], damage))
    return loaded, goes_on


def _gone(path: Path, damage: Damage) -> Loaded:
    """Tell of a segment of which only the index is there."""
    index = _index(path)
    segment = Segment(path, int(path.stem), 0 if index is None else index.length)
    damage.missed(path, 0, segment.length, "the file is gone")
    damage.unknown.discard(path)
    return Loaded(segment, index, is_gone=True)


def _sealed(path: Path, end: int | None, damage: Damage) -> Loaded:
    """Load a segment to which nothing is appended any more.

    Args:
        path: the segment; what stands beside it is a short cut, and tells what it held.
        end: where the next one starts; None if there is none.
        damage: told of what can't be read, which is left out.

    Raises:
        OSError: there is no such segment.

    """
    length = path.stat().st_size
    start = int(path.stem)
    index = _index(path)
    if end is not None:
        expected = end - start
    else:
        expected = length if index is None else max(length, index.length)
    if index is not None and index.length not in (length, expected):
        # It may have lost its end, and the one behind it be gone; else the index is another's.
        index = index if length < index.length < expected else None
    if index is not None and index.length == length == expected:
        segment = Segment(path, start)
        segment.take(index)
        return Loaded(segment, index)
    try:
        loaded = _read(path, damage)
    except OSError as error:  # it may be there the next time, so nothing of it counts as lost
        damage.note(path, 0, str(error))
        loaded = Loaded(Segment(path, start), is_unread=index is None)
        if index is not None:
            loaded.segment.take(index)
    loaded.segment.length = length if end is not None else expected
    if length != expected:
        why = f"{length} bytes long, not {expected}"
        damage.missed(path, min(length, expected), max(0, expected - length), why)
        damage.unknown.discard(path)
    if index is not None:
        loaded.index = index
        loaded.gaps.clear()
    return loaded


def _index(path: Path) -> SegmentIndex | None:
    """Return what is told beside a segment, if it is of that one."""
    try:
        index = SegmentIndex.unpack(path.with_suffix(SUFFIX).read_bytes())
    except (OSError, ValueError):
        return None
    return index if index.start == int(path.stem) else None


def restored(mark: Path, newest_name: str, damage: Damage) -> int:
    """Return up to where the newest segment of a spool was told to be safe.

    If it is shorter, or gone, zeros take the place of what was lost: readers of the spool have gone
    on from there, and nothing else may come to stand in that place.

    Args:
        mark: the file that tells readers so.
        newest_name: of the newest segment that is there; empty if none is.
        damage: told of what is gone.

    Raises:
        OSError: the mark can't be read now, or the segment can't be made as long as it was.

    """
    try:
        name, told = mark.read_text("ascii").split()
        length = int(told)
    except (FileNotFoundError, ValueError):
        return 0
    except OSError as error:
        if not is_at_fault(error):
            raise
        return 0
    if _NAME.fullmatch(name) is None or name < newest_name:
        return 0
    path = mark.with_name(name)
    with path.open("ab") as file:
        size = file.tell()
        if size < length:
            file.truncate(length)
            damage.note(path, size, f"{length} bytes of it were safe")
    return length


def _last(
    paths: Sequence[Path], promised: int, inner: InnerStarts, damage: Damage
) -> tuple[Loaded, bool]:
    path = paths[-1]
    if _index(path) is not None:
        damage.note(path, path.stat().st_size, "the segment behind it is gone")
        return _sealed(path, None, damage), False
    loaded = _read(path, damage, promised, inner)
    length = loaded.segment.length
    if loaded.cut_bytes:
        os.truncate(path, length)
    elif not length and len(paths) > 1 and _index(paths[-2]):
        damage.note(path, 0, "empty, though something stood in it")
    goes_on = not loaded.is_damaged and inner.are_complete(loaded.segment.start)
    return loaded, goes_on or not length


def _read(
    path: Path,
    damage: Damage,
    promised: int = 0,
    inner: InnerStarts | None = None,
    length: int | None = None,
) -> Loaded:
    segment = Segment(path, int(path.stem))
    loaded = Loaded(segment)
    data, is_whole = damage.whole(path)
    data = data[:length]
    end = len(data)
    around = _Around()
    for found in damage.walked(path, data):
        if not isinstance(found, DamagedBytes):
            segment.note(*found)
            loaded.gaps += around.batch(found[1])
            continue
        is_tail = is_whole and found.end == end and found.at >= promised
        if is_tail and inner is not None and _is_left_by_a_stop(data, found.at, segment, inner):
            loaded.cut_bytes = end - found.at
            if not is_beginning(data, found.at):
                damage.missed(path, found.at, end - found.at, _UNWRITTEN)
            end = found.at
            break
        damage.missed(path, found.at, found.end - found.at, found.why)
        loaded.is_damaged = True
        around.damage()
    segment.length = end
    damage.unknown.discard(path)
    return loaded


class _Around:
    """The numbers that are next to damage, by stream."""

    def __init__(self) -> None:
        self._last: dict[Epoch, int] = {}
        self._before: dict[Epoch, int] = {}
        self._settled: set[Epoch] = set()
        self._is_any = False

    def damage(self) -> None:
        """Some bytes can't be read."""
        for key in self._settled:
            del self._before[key]
        self._before = {**self._last, **self._before}
        self._settled.clear()
        self._is_any = True

    def batch(self, header: Header) -> list[tuple[Epoch, int, int]]:
        """Take the next batch; return what is missing before it, if it is the first behind
        damage."""
        if not header.numbered:
            return []
        key = header.stream
        self._last[key] = header.last
        if not self._is_any or key in self._settled:
            return []
        self._settled.add(key)
        return [(key, self._before.setdefault(key, 0), header.first - 1)]


def _is_left_by_a_stop(data: bytes, at: int, segment: Segment, inner: InnerStarts) -> bool:
    if not (is_beginning(data, at) or is_unwritten(data, at)):
        return False
    return inner.are_complete(segment.start) or not is_any_behind(data, at)


def missing(of: IndexedNumbers, among: IndexedNumbers) -> dict[Epoch, Intervals]:
    """Return what numbers have that others have not, by stream."""
    found = {key: ranges.without(among.get(key, _NOTHING)) for key, ranges in of.items()}
    return {key: ranges for key, ranges in found.items() if ranges}


def looked_through(path: Path, damage: Damage, length: int) -> Segment:
    """Return what a segment in which damage was met still holds up to a position.

    Raises:
        OSError: it can't be read.

    """
    return _read(path, damage, length=length).segment


def surveyed(segment: Segment, now: Segment, damage: Damage) -> dict[Epoch, Intervals]:
    """Return what a segment held and can't be read any more; its index tells it no more.

    Args:
        segment: in which damage was met.
        now: what was found of it, up to its end of then.
        damage: told of what can't be read of the rest.

    Raises:
        LogError: the rest can't be read.

    """
    if (behind := now.length) < segment.length:
        data = damage.part(segment.path, behind, segment.length)
        for at, header in damage.readable(segment.path, data, behind):
            now.note(behind + at, header)
    lost = missing(segment.holds, now.holds)
    segment.holds, segment.control, segment.pages = now.holds, now.control, now.pages
    index = _index(segment.path)
    if lost and index is not None:
        changed = replace(index, control=segment.control, holds=segment.holds)
        with contextlib.suppress(OSError):  # the next start asks for it when it meets it again
            replaced_file.replace(segment.path.with_suffix(SUFFIX), changed.pack())
    return lost
