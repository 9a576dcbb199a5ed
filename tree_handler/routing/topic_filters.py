"""The meaning of a topic filter, stated once (MQTT 5.0 and 3.1.1, section 4.7).

A topic is levels between slashes; a level may be empty. A filter matches level by level: ``+``
is any one level, a last ``#`` any number of levels, none included. A wildcard never stands
for a first level that begins with ``$`` [MQTT-4.7.2-1]. Filters are well-formed here, and but for
`split_share` and `proper` not shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SHARE: Final = "$share/"
_ALIKE = {"#": "+/#", "/#": "/+/#"}


def matches(topic_filter: str, topic: str) -> bool:
    """Return whether a filter matches a topic."""
    if topic[:1] == "$" and topic_filter[:1] in ("+", "#"):
        return False  # [MQTT-4.7.2-1]
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or (level != "+" and level != levels[at]):
            return False
    return len(levels) == len(wanted)


def covers(wider: str, narrower: str) -> bool:
    """Return whether ``wider`` matches every topic that ``narrower`` matches."""
    if narrower[:1] == "$" and wider[:1] in ("+", "#"):
        return False  # [MQTT-4.7.2-1]
    wide = wider.split("/")
    # No topic is empty, so the level before which "#" stands is there in any case.
    narrow = _ALIKE.get(narrower, narrower).split("/")
    for at, level in enumerate(wide):
        if level == "#":
            return True
        if at >= len(narrow) or narrow[at] == "#" or (level != "+" and level != narrow[at]):
            return False
    return len(narrow) == len(wide)


def is_exact(topic_filter: str) -> bool:
    """Return whether a filter matches one topic only."""
    return "+" not in topic_filter and "#" not in topic_filter


def split_share(topic_filter: str) -> tuple[str, str]:
    """Return the share name and the filter proper (MQTT 5.0, 4.8.2); no name if it is not
    shared."""
    if not topic_filter.startswith(_SHARE):
        return "", topic_filter
    name, _, rest = topic_filter[len(_SHARE) :].partition("/")
    return name, rest


def proper(topic_filter: str) -> str:
    """Return the filter of a subscription without the share name, if it has one."""
    return split_share(topic_filter)[1]


def levels_of(filters: Iterable[str]) -> int:
    """Count the levels of filters together: each may cost a node of whoever looks for them."""
    return sum(topic_filter.count("/") + 1 for topic_filter in filters)


def collapse(filters: Iterable[str], limit: int, levels_limit: int) -> frozenset[str]:
    """At most ``limit`` filters that match all that these match, and perhaps more.

    What another one covers goes. If too many are left, or too many levels, all are cut to the same
    number of levels, as many as are possible, and end with ``#``. Filters of topics that begin with
    ``$`` are left out: no client publishes to those.
    """
    kept = _without_covered({f for f in filters if f[:1] != "$"})
    depth = max((f.count("/") for f in kept), default=0)
    while (len(kept) > limit or levels_of(kept) > levels_limit) and depth > 0:
        kept = _without_covered({_cut(f, depth) for f in kept})
        depth -= 1
    return frozenset(kept if len(kept) <= limit else ("#",))


def _cut(topic_filter: str, depth: int) -> str:
    levels = topic_filter.split("/")
    return topic_filter if len(levels) <= depth else "/".join([*levels[:depth], "#"])


def _without_covered(filters: set[str]) -> set[str]:
    return {f for f in filters if not any(p in filters for p in _prefixes(f) if p != f)}


def _prefixes(topic_filter: str) -> Iterable[str]:
    """Return the filters that end with ``#`` and cover this one, as far as its beginning tells."""
    yield "#"
    levels = topic_filter.split("/")
    for depth in range(1, len(levels) + 1):
        if levels[depth - 1] != "#":
            yield "/".join([*levels[:depth], "#"])
