"""Targets of rules: filters of topics and of paths, with placeholders.

``%u`` is the name of who asks, ``%c`` the client identifier over MQTT and ``%%`` a percent sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gateway.mqtt import FilterError, check_topic_filter
from gateway.trust.policy.action import PATH_VERBS, PUBLISH, RIGHTS

_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)


class RuleError(ValueError):
    """A rule of a policy is wrong.

    Args:
        action: the verb, or the list that it is in.
        why: what is wrong with it.
        value: the rule.

    """

    def __init__(self, action: str, why: str, value: str) -> None:
        super().__init__(f"{action}: {value!r} {why}")
        self.action = action
        self.why = why
        self.value = value


def is_readable(topic_or_filter: str) -> bool:
    """Return whether a rule can open it for reading: ``$SYS`` and what starts with no ``$``."""
    return topic_or_filter[:1] != "$" or topic_or_filter.partition("/")[0] == "$SYS"


def check_target(verb: str, target: str, *, takes_away: bool = False) -> None:
    """Refuse what no rule's target can be.

    Args:
        verb: of `gateway.trust.policy.action.VERBS`, or ``conceal``.
        target: topic filter, or path with ``+`` and ``#`` as in one; empty for rights.
        takes_away: the rule denies or conceals; it has no placeholder then, for one that could
            not be filled in would take nothing away.

    Raises:
        RuleError: it is refused.

    """
    if verb in RIGHTS:
        if target:
            raise RuleError(verb, "has a target, and there is none", target)
        return
    is_path = verb in PATH_VERBS
    try:
        check_topic_filter(target)
    except FilterError as error:
        kind = "path" if is_path else "topic filter"
        raise RuleError(verb, f"is no {kind}: {error.what}", target) from error
    if is_path and target[0] != "/":
        raise RuleError(verb, "does not begin with '/'", target)
    if any(placeholder[1] not in ("u", "c", "%") for placeholder in _PLACEHOLDER.finditer(target)):
        raise RuleError(verb, "has a '%' that is none of %u, %c and %%", target)
    if takes_away and has_placeholder(target):
        raise RuleError(verb, "has a placeholder, which can't conceal", target)
    if target[0] == "$" and (verb == PUBLISH or not is_readable(target)):
        raise RuleError(verb, "opens a '$' topic, which is not for clients", target)


def has_placeholder(target: str) -> bool:
    """Return whether something is to be filled in."""
    return any(placeholder[1] != "%" for placeholder in _PLACEHOLDER.finditer(target))


def filled(target: str, name: str | None, client_id: str) -> str | None:
    """Return a target with its placeholders filled in.

    It is None if what would be filled in is missing or could change what the rule means: with the
    client id ``#`` the rule ``%c/#`` would be all topics.

    Args:
        target: of a rule that is right.
        name: for ``%u``.
        client_id: for ``%c``.

    """
    if "%" not in target:
        return target
    values = {"u": _one_level(name), "c": _one_level(client_id), "%": "%"}
    used = [values[placeholder[1]] for placeholder in _PLACEHOLDER.finditer(target)]
    return None if None in used else _PLACEHOLDER.sub(_filler(values), target)


def _filler(values: Mapping[str, str | None]) -> Callable[[re.Match[str]], str]:
    return lambda placeholder: values[placeholder[1]] or ""


def _one_level(name: str | None) -> str | None:
    """Return the name, if it can only be taken for one literal level of a topic."""
    if not name or name[0] == "$" or any(mark in name for mark in "/+#\0"):
        return None
    return name
