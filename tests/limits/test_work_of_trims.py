"""Goal: what a trim of the log costs on the event loop does not grow with the log's length.

Method: a log of many streams, each in each of its segments, loses its oldest segments one by one;
the lines of Python that are carried out for it are counted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import parser_cost

from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Epoch, Flags

STREAMS = 100


def filled(folder: Path, segments: int) -> MessageLog:
    """A log with a message of each stream in each segment."""
    rounds = [
        [
            batch.make(
                f"gw-{stream}", 1, number, [("t", 1, b"")], flags=Flags.LOGGED, origin_time_us=0
            )
            for stream in range(STREAMS)
        ]
        for number in range(1, segments + 1)
    ]
    (size_bytes,) = {sum(len(frame) for frame, _ in made) for made in rounds}
    log = MessageLog(folder, segment_bytes=size_bytes)
    log.open()
    for made in rounds:
        for frame, header in made:
            log.append(frame, header)
    log.sync()
    assert len(list(folder.glob("*.log"))) == segments
    return log


@pytest.mark.parametrize("segments", [6, 48])
def test_what_a_log_still_holds_is_known_without_a_look_into_each_segment(
    tmp_path: Path, segments: int
) -> None:
    log = filled(tmp_path / "log", segments)
    log.kept_from()
    log.max_bytes = log.length - 1
    assert log.trim()
    found: dict[Epoch, int] = {}
    count = parser_cost.lines(lambda _: found.update(log.kept_from()), b"")
    assert found == {(f"gw-{stream}", 1): 2 for stream in range(STREAMS)}
    assert count <= 10 * STREAMS
    log.close()
