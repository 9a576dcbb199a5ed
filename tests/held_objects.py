"""Memory that an object takes, counted from outside, whatever its tables are called."""

from __future__ import annotations

import asyncio
import gc
import types
from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T")
_SHARED = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    asyncio.AbstractEventLoop,
)
"""Types of objects that others refer to and do not hold."""


def held_objects(*roots: object) -> int:
    """Count the objects that some hold, and those that these hold, and so on.

    Numbers and texts count each; what is known to be shared (types, modules, functions and the
    event loop) does not. What is remembered of one thing more is one object at least.
    """
    return len(_held(roots))


def held_bytes(*roots: object) -> int:
    """Sum up the lengths of all ``bytes`` that some objects hold, as `held_objects` finds them."""
    return sum(len(one) for one in _held(roots) if isinstance(one, bytes))


def held_text(root: object) -> int:
    """Return the length of the longest text that an object holds, as `held_objects` finds them."""
    return max((len(one) for one in _held([root]) if isinstance(one, str)), default=0)


def held_instances(root: object, kind: type[T]) -> list[T]:
    """Return the objects of a class that one holds, as `held_objects` finds them."""
    return [one for one in _held([root]) if isinstance(one, kind)]


def _held(roots: Iterable[object]) -> Collection[object]:
    seen: dict[int, object] = {}
    ahead = list(roots)
    while ahead:
        one = ahead.pop()
        if id(one) not in seen and not isinstance(one, _SHARED):
            seen[id(one)] = one
            ahead.extend(gc.get_referents(one))
            if isinstance(one, dict):  # of which the collector leaves texts out
                ahead.extend(one)
    return seen.values()
