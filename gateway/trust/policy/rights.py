"""Rights of one principal at one gateway, with placeholders filled in, decisions remembered.

What no rule allows is denied, and a rule that denies wins over all that allow.

A subscription is allowed if one rule covers all of its filter, so nobody gets by a wildcard what
the rules do not give. It is denied if a rule that denies covers all of it: a wider one may be
subscribed to, and what is denied is not delivered. Topics that start with ``$`` are the broker's
and the tree's own: no rule opens them, but that ``$SYS`` may be read where a rule names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.mqtt import FilterError, check_topic_filter
from gateway.trust.policy.action import DELIVER, PUBLISH, RIGHTS, SUBSCRIBE
from gateway.trust.policy.rule import ALLOW, CONCEAL, DENY, Decision, Rule
from gateway.trust.policy.targets import filled, is_readable
from tree_handler.routing.topic_filters import covers, matches, proper

DECISIONS_MAX: Final = 256
"""Remembered decisions on what one principal may receive."""
_REMEMBERED_CHARACTERS: Final = 256
"""Decisions on longer topics are made anew each time: a client chooses how long its topics are."""
_NOT_OPEN: Final = Decision(False, None, "no client may use this topic")
_MALFORMED: Final = Decision(False, None, "it is no topic filter")
_NOTHING: Final = Decision(False)

_Filled = tuple[str, Rule]
"""A rule's target with its placeholders filled in, and the rule."""


class Rights:
    """The rights of one principal at one gateway.

    Args:
        rules: that are for it there, in the order in which they are asked.
        name: what stands for ``%u``; None for who has none.
        client_id: what stands for ``%c``.
        decisions_max: how many decisions on topics that it may receive are remembered.

    """

    __slots__ = ("_allow", "_conceal", "_decisions_max", "_delivered", "_deny")

    def __init__(
        self,
        rules: Iterable[Rule],
        name: str | None = None,
        client_id: str = "",
        decisions_max: int = DECISIONS_MAX,
    ) -> None:
        self._allow: dict[str, list[_Filled]] = {}
        self._deny: dict[str, list[_Filled]] = {}
        self._conceal: list[_Filled] = []
        self._decisions_max = decisions_max
        self._delivered: dict[str, bool] = {}
        for rule in rules:
            self._add(rule, filled(rule.target, name, client_id))

    def may_publish(self, topic: str) -> bool:
        """Return whether it may publish to a topic, its will's topic included.

        It is not remembered here, but for each connection (`inbound.publisher`).
        """
        return self.decide(PUBLISH, topic).is_allowed

    def may_receive(self, topic: str) -> bool:
        """Return whether a message of a topic, retained or not, may be delivered to it."""
        decision = self._delivered.get(topic)
        if decision is None:
            decision = self.decide(DELIVER, topic).is_allowed
            if len(topic) <= _REMEMBERED_CHARACTERS:
                if len(self._delivered) >= self._decisions_max:
                    self._delivered.clear()
                self._delivered[topic] = decision
        return decision

    def may_subscribe(self, topic_filter: str) -> bool:
        """Return whether it may subscribe to a filter, shared or not.

        False for one that is malformed.
        """
        return self.decide(SUBSCRIBE, topic_filter).is_allowed

    def is_concealed(self, topic_filter: str) -> bool:
        """Return whether all that a filter, which is not shared, matches is concealed from it.

        A wider filter may be subscribed to; what is concealed is then not delivered.
        """
        return _covering(self._conceal, topic_filter) is not None

    def decide(self, verb: str, target: str = "") -> Decision:
        """Return whether it may do something; see `gateway.trust.policy.action`.

        Args:
            verb: what.
            target: topic, filter or path; empty for `RIGHTS`.

        """
        if verb == SUBSCRIBE:
            return self._on_filter(target)
        if verb == PUBLISH and target[:1] == "$":
            return _NOT_OPEN
        if verb == DELIVER and not is_readable(target):
            return _NOT_OPEN
        denied = _matching(self._deny.get(verb, ()), target)
        if denied is None and verb == DELIVER:
            denied = _matching(self._deny.get(SUBSCRIBE, ()), target)
            denied = denied or _matching(self._conceal, target)
        if denied is not None:
            return Decision(False, denied)
        allowed = _matching(self._allow.get(verb, ()), target)
        return _NOTHING if allowed is None else Decision(True, allowed)

    def _on_filter(self, topic_filter: str) -> Decision:
        try:
            wanted = proper(check_topic_filter(topic_filter))
        except FilterError:
            return _MALFORMED
        if not is_readable(wanted):
            return _NOT_OPEN
        denied = _covering(self._deny.get(SUBSCRIBE, ()), wanted)
        denied = denied or _covering(self._conceal, wanted)
        if denied is not None:
            return Decision(False, denied)
        allowed = _covering(self._allow.get(SUBSCRIBE, ()), wanted)
        return _NOTHING if allowed is None else Decision(True, allowed)

    def _add(self, rule: Rule, target: str | None) -> None:
        if target is None:  # what would be filled in is missing, or could widen the rule
            return
        if rule.effect == ALLOW:
            self._allow.setdefault(rule.verb, []).append((target, rule))
        elif rule.effect == DENY:
            self._deny.setdefault(rule.verb, []).append((target, rule))
        else:
            assert rule.effect == CONCEAL, rule
            self._conceal.append((target, rule))


def _matching(rules: Sequence[_Filled], target: str) -> Rule | None:
    for wanted, rule in rules:
        if rule.verb in RIGHTS or matches(wanted, target):
            return rule
    return None


def _covering(rules: Sequence[_Filled], topic_filter: str) -> Rule | None:
    for wanted, rule in rules:
        if covers(wanted, topic_filter):
            return rule
    return None
