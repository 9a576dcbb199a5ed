"""Sizes of the tables of cores: all that can be reached from them, by the way there.

A core that runs for years may only keep what is bounded by what lives, so whoever checks that wants
all its tables, those of tomorrow too: they are found by a walk over attributes and not by a list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

_OURS: Final = "tree_handler."
_NOT_OF_A_CORE: Final = "tree_handler.simulation."
_TABLES: Final = (dict, list, set, frozenset, deque)
_LEAVES: Final = (str, bytes, int, float, type(None))


def table_sizes(cores: Mapping[str, object]) -> dict[str, int]:
    """Return how many items the tables of cores have: of those at the same place, the most.

    Args:
        cores: objects of classes of this package, by name. What they have of other packages, and
            of the simulation, is not looked into.

    Returns:
        By the way, as ``replication.have[]._firsts``: the attributes, and ``[]`` for any item. What
        several ways lead to counts for one of them, from the first core from which one does.

    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    names: dict[type, tuple[str, ...]] = {}
    left: list[tuple[str, object]] = list(cores.items())[::-1]
    while left:
        way, value = left.pop()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        of = type(value)
        if isinstance(value, _TABLES):
            found[way] = max(len(value), found.get(way, 0))
            within = value.values() if isinstance(value, dict) else value
            left += [(f"{way}[]", one) for one in within if not isinstance(one, _LEAVES)]
        elif isinstance(value, tuple):
            left += [(way, one) for one in value if not isinstance(one, _LEAVES)]
        elif of.__module__.startswith(_OURS) and not of.__module__.startswith(_NOT_OF_A_CORE):
            if of not in names:
                names[of] = _slots(of)
            left += [(f"{way}.{one}", inner) for one, inner in _attributes(value, names[of])]
    return found


def _attributes(value: object, slots: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name in (*getattr(value, "__dict__", ()), *slots):
        if hasattr(value, name):
            yield name, getattr(value, name)


def _slots(of: type) -> tuple[str, ...]:
    """Attributes that objects of a class have without a dictionary; compiled ones have no other."""
    found: dict[str, None] = {}
    for base in of.__mro__:
        for kind in ("__slots__", "__mypyc_attrs__"):
            names = base.__dict__.get(kind, ())
            found |= dict.fromkeys((names,) if isinstance(names, str) else names)
    return tuple(name for name in found if not name.startswith("__"))
