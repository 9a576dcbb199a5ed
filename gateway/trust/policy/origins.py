"""Rights of other gateways in what they publish: to have it obeyed, and to have it retained.

A message of another gateway is a client's of its own, or the gateway's; which client's, nobody here
has seen. So it is decided on as an action of the gateway that made it, whose signature it has. That
is a principal, ``gateway:ID``, with the roles that ``[vouch]`` lets that gateway vouch for, the
rules that name it, and its own topics. A topic is a gateway's own whose third level is its id:
``<domain>/<group>/<id>/...`` and Home Assistant's ``<prefix>/<component>/<id>/...``.

What acts on a message asks `OriginRules.may_command`, which a rule has to allow. What keeps or
repeats it asks `may_speak`: that holds for all topics but those of other gateways, unless a rule
says otherwise, since a broker is there for what devices publish under names of their own. Who
chooses a gateway whose member of a shared subscription gets a message asks `may_hold`.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from gateway.trust.policy.action import DELIVER, PUBLISH
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import GATEWAY, Principal
from light_dataclasses import dataclass

DECISIONS_MAX: Final = 4_096
"""Remembered decisions, by origin and topic."""
_REMEMBERED_CHARACTERS: Final = 256
"""Decisions on longer topics are made anew each time: who publishes chooses how long they are."""
_OWNER_LEVEL: Final = 2

_Verdict = tuple[bool, bool]
"""True if a rule allows it; true if one denies it."""
_EVERYTHING: Final = (True, False)
_NOTHING: Final = (False, False)


class OriginRules:
    """Decides on what gateways publish.

    Args:
        policy: of topics; None where everybody may do everything.
        gateways: who is a gateway of the fleet, by all who know some.

    """

    def __init__(self, policy: Policy | None, *gateways: Container[str]) -> None:
        self._policy = policy
        self._gateways = gateways
        self._decided: dict[tuple[str, str, str], _Verdict] = {}

    def follow(self, policy: Policy | None) -> None:
        """Go by another policy from now on."""
        self._policy = policy
        self._decided.clear()

    def may_command(self, origin: str, topic: str) -> bool:
        """Return whether a message may set something here.

        Args:
            origin: the gateway that it came into the tree by.
            topic: of it.

        """
        return self._verdict(origin, topic)[0]

    def may_speak(self, origin: str, topic: str) -> bool:
        """Return whether a message may be retained, and be taken by a sensor that listens to it.

        Args:
            origin: the gateway that it came into the tree by.
            topic: of it.

        """
        if topic[:1] == "$":
            return False
        is_allowed, is_denied = self._verdict(origin, topic)
        if is_allowed or is_denied:
            return is_allowed
        owner = owner_of(topic)
        is_own = self._policy is not None and owner == self._policy.here.gateway
        return not is_own and not any(owner in known for known in self._gateways)

    def may_hold(self, gateway_id: str, topic: str) -> bool:
        """Return whether a gateway's members of shared subscriptions may be given a message.

        Args:
            gateway_id: of the gateway that has members.
            topic: of the message. A rule that names the gateway, or all, has to deny that it is
                delivered there: what its clients are is not the gateway's.

        """
        return self._policy is None or not self._verdict(gateway_id, topic, DELIVER)[1]

    def _verdict(self, origin: str, topic: str, verb: str = PUBLISH) -> _Verdict:
        policy = self._policy
        if policy is None:
            return _EVERYTHING
        if not origin:  # unsigned, and nobody's
            return _NOTHING
        verdict = self._decided.get((origin, verb, topic))
        if verdict is None:
            held = Principal(GATEWAY, origin)
            who = held if verb == DELIVER else policy.principal(GATEWAY, origin)
            decision = policy.rights(who).decide(verb, topic)
            is_denied = not decision.is_allowed and decision.rule is not None
            verdict = decision.is_allowed, is_denied
            if len(topic) <= _REMEMBERED_CHARACTERS:
                if len(self._decided) >= DECISIONS_MAX:
                    self._decided.clear()
                self._decided[origin, verb, topic] = verdict
        return verdict


@dataclass(frozen=True, slots=True)
class OriginRights:
    """The rights of one gateway over what it publishes.

    Attributes:
        origin: its id.
        rules: decide.

    """

    origin: str
    rules: OriginRules

    def may_command(self, topic: str) -> bool:
        """Return whether the gateway may command: see `OriginRules.may_command`."""
        return self.rules.may_command(self.origin, topic)

    def may_speak(self, topic: str) -> bool:
        """Return whether the gateway may speak: see `OriginRules.may_speak`."""
        return self.rules.may_speak(self.origin, topic)


def owner_of(topic: str) -> str:
    """Return the id that a topic's third level would be; empty if it has none."""
    levels = topic.split("/", _OWNER_LEVEL + 1)
    return levels[_OWNER_LEVEL] if len(levels) > _OWNER_LEVEL else ""
