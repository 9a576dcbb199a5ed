"""What a topic filter means, stated once (MQTT 5.0 and 3.1.1, section 4.7).

Statement numbers are those of MQTT 5.0.

A topic is levels between slashes; a level may be empty. A filter matches level by level: ``+``
is any one level, a last ``#`` is any number of levels, none included.
"""

from __future__ import annotations

SHARE_PREFIX = "$share/"
"""Start of a shared subscription's filter (MQTT 5.0, section 4.8.2)."""


class FilterError(ValueError):
    """A topic filter is malformed.

    Args:
        what: what is wrong with it.
        value: the filter.

    """

    def __init__(self, what: str, value: str) -> None:
        shown = repr(value if len(value) <= 80 else value[:77] + "...")
        super().__init__(f"topic filter {shown}: {what}")
        self.what = what
        self.value = value


def filter_levels(topic_filter: str) -> list[str]:
    """The levels of a filter, shared or not checked apart.

    Raises:
        FilterError: it is empty, or a wildcard is not where it may be.

    """
    if not topic_filter:
        raise FilterError("is empty", topic_filter)  # [MQTT-4.7.3-1]
    levels = topic_filter.split("/")
    if "+" in topic_filter and any("+" in level and level != "+" for level in levels):
        raise FilterError("'+' must be a whole level", topic_filter)  # [MQTT-4.7.1-2]
    # [MQTT-4.7.1-1]
    if "#" in topic_filter and (levels[-1] != "#" or topic_filter.count("#") > 1):
        raise FilterError("'#' must be the whole last level", topic_filter)
    return levels


def split_share(topic_filter: str) -> tuple[str, str]:
    """The share name and the filter proper; the name is ``""`` for an unshared filter.

    Raises:
        FilterError: it starts as a shared subscription and is none.

    """
    if not topic_filter.startswith(SHARE_PREFIX):
        return "", topic_filter
    name, slash, rest = topic_filter[len(SHARE_PREFIX) :].partition("/")
    # [MQTT-4.8.2-1], [MQTT-4.8.2-2]
    if not name or "+" in name or "#" in name:
        raise FilterError("the share name must be one level without wildcards", topic_filter)
    if not slash or not rest:
        raise FilterError("a filter must follow the share name", topic_filter)
    return name, rest


def is_exact(topic_filter: str) -> bool:
    """Whether the filter, which is not shared, matches one topic only."""
    return "+" not in topic_filter and "#" not in topic_filter


def matches(topic_filter: str, topic: str) -> bool:
    """Whether an unshared filter matches a topic."""
    if topic[:1] == "$" and topic_filter[:1] in ("+", "#"):
        return False  # [MQTT-4.7.2-1]
    levels = topic.split("/")
    count = len(levels)
    wanted = topic_filter.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= count or (level != "+" and level != levels[at]):
            return False
    return count == len(wanted)


_ALIKE = {"#": "+/#", "/#": "/+/#"}


def covers(wider: str, narrower: str) -> bool:
    """Whether ``wider`` matches every topic that ``narrower`` matches. Neither is shared."""
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
