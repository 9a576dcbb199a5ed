"""Rules of an access policy: topic filters with placeholders, what they may say and stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.mqtt import FilterError, check_topic_filter

_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)


class RuleError(ValueError):
    """A rule of a policy is wrong.

    Args:
        action: the list that it is in: ``publish``, ``subscribe``, ``deliver`` or ``conceal``.
        why: what is wrong with it.
        value: the rule.

    """

    def __init__(self, action: str, why: str, value: str) -> None:
        super().__init__(f"{action}: {value!r} {why}")
        self.action = action
        self.why = why
        self.value = value


@dataclass(frozen=True, slots=True)
class Rules:
    """What one section allows: topic filters, in which %u is the user and %c the client id.

    Attributes:
        publish: topics that may be published to.
        subscribe: filters that may be subscribed to, and all that they cover.
        deliver: topics that may be received; None for those of ``subscribe``.
        conceal: topics that may not be read whatever other rules say; without placeholders.

    Raises:
        RuleError: a rule is no topic filter, has an unknown placeholder or opens a ``$`` topic.

    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    deliver: tuple[str, ...] | None = None
    conceal: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for action in ("publish", "subscribe", "deliver", "conceal"):
            for rule in getattr(self, action) or ():
                _check_rule(action, rule)

    @property
    def received(self) -> tuple[str, ...]:
        """The rules that a delivery is checked against."""
        return self.subscribe if self.deliver is None else self.deliver


def is_readable(topic_or_filter: str) -> bool:
    """Whether a rule can open it for reading: ``$SYS`` and what does not start with ``$``."""
    return topic_or_filter[:1] != "$" or topic_or_filter.partition("/")[0] == "$SYS"


def _check_rule(action: str, rule: str) -> None:
    try:
        check_topic_filter(rule)
    except FilterError as error:
        raise RuleError(action, f"is no topic filter: {error.what}", rule) from error
    if any(placeholder[1] not in ("u", "c", "%") for placeholder in _PLACEHOLDER.finditer(rule)):
        raise RuleError(action, "has a '%' that is none of %u, %c and %%", rule)
    if action == "conceal" and "%" in rule:  # one that can't be filled in would conceal nothing
        raise RuleError(action, "has a placeholder, which can't conceal", rule)
    if rule[0] == "$" and (action == "publish" or not is_readable(rule)):
        raise RuleError(action, "opens a '$' topic, which is not for clients", rule)


def fill_in(rules: Iterable[str], user: str | None, client_id: str) -> tuple[str, ...]:
    """The rules with their placeholders filled in, each once.

    A rule is left out if what would be filled in is missing or could change what the rule
    means: with the client id ``#`` the rule ``%c/#`` would be all topics.
    """
    values = {"u": _one_level(user), "c": _one_level(client_id), "%": "%"}
    filled: dict[str, None] = {}
    for rule in rules:
        used = [values[placeholder[1]] for placeholder in _PLACEHOLDER.finditer(rule)]
        if None not in used:
            filled[_PLACEHOLDER.sub(_filler(values), rule)] = None
    return tuple(filled)


def _filler(values: Mapping[str, str | None]) -> Callable[[re.Match[str]], str]:
    return lambda placeholder: values[placeholder[1]] or ""


def _one_level(name: str | None) -> str | None:
    """The name, if it can only be taken for one literal level of a topic."""
    if not name or name[0] == "$" or any(mark in name for mark in "/+#\0"):
        return None
    return name
