"""The cost of one input to its parser: lines that are carried out, memory, and processor time."""

from __future__ import annotations

import contextlib
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

Shape = Callable[[int], bytes]
"""Makes an input of about so many bytes."""
STRANGER, CLIENT, MEMBER = "stranger", "client", "member"
"""Senders of an input: anybody, a client that has given proof, another gateway."""
LINES = {STRANGER: 25_000, CLIENT: 150_000, MEMBER: 400_000}
"""The most lines of one input: a stranger's cost a PC a millisecond, a gateway's thirty."""


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser.

    Attributes:
        run: parses; whatever a parser may raise for wrong input is a ValueError.
        who: may send it.
        most_bytes: the largest input that it looks at.
        shapes: what costs it most, by name.
        own_lines: what one input may cost where that is not `LINES` of who may send it.

    """

    run: Callable[[bytes], object]
    who: str
    most_bytes: int
    shapes: dict[str, Shape]
    own_lines: int = 0

    @property
    def most_lines(self) -> int:
        """The most lines that one input may cost."""
        return self.own_lines or LINES[self.who]


def lines(run: Callable[[bytes], object], data: bytes, most: int = 1 << 40) -> int:
    """Count the lines of Python that are carried out for an input; give it up beyond ``most``."""
    count = 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count > most:
                raise _TooMuchError
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        run(data)
    except (ValueError, _TooMuchError):
        pass
    except Exception as error:  # what a parser of another project refuses with
        if not type(error).__module__.startswith(("h11", "websockets", "gateway", "coap_engine")):
            raise
    finally:
        sys.settrace(before)
    return count


class _TooMuchError(BaseException):
    """Enough has been counted."""


def made_bytes(run: Callable[[bytes], object], data: bytes) -> int:
    """Return the peak of memory in bytes while an input is dealt with.

    What C code takes counts too, though no line of it is carried out.
    """
    tracemalloc.start()
    try:
        with contextlib.suppress(Exception):  # a refusal is as good
            run(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds(run: Callable[[bytes], object], data: bytes) -> float:
    """Processor time for an input."""
    begun_s = time.process_time()
    with contextlib.suppress(Exception):  # it is the time that counts
        run(data)
    return time.process_time() - begun_s
