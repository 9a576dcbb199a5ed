"""The policy of a gateway: who has which roles, and who may do what.

Roles come from three places: a certificate names its own, the file assigns them to a principal by
name, and those who have proof and neither get what the file has for their kind (``psk:*``), for
everybody with proof (``*``), or else the configuration's `access.default_roles`.

A request from another gateway is somebody's for whom that gateway vouches. It has those of the
roles that the other gateway gave it and that the file lets that gateway vouch for. What another
gateway publishes is its own word, and it has the roles that it may vouch for (`origins`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from gateway.trust.policy import built_in, public_paths
from gateway.trust.policy.action import HERE, Action, ActionPlace
from gateway.trust.policy.principal import GATEWAY, LOCAL, NAMELESS, NO_ROLES, Principal
from gateway.trust.policy.rights import Rights
from gateway.trust.policy.rule import ANY_NAME, EVERYBODY, Decision, Rule, rules_for
from light_dataclasses import dataclass

RIGHTS_MAX = 1_000
"""So many principals' rights are remembered: those that came last."""

_Key = tuple[Principal, str]


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """The content of a policy.

    Attributes:
        roles: by name, built-in ones among them.
        rules: further ones, for roles and for principals.
        assigned: roles by a principal's text, ``KIND:*`` or ``*``.
        vouched: the roles that a gateway may vouch for, by its id or ``*``.
        default_roles: of who has proof and is given no role.
        is_versioned: the file has a version, and so says of all protocols who may do what.
        public: paths over CoAP that everybody may read, unless a rule denies it.

    """

    roles: Mapping[str, built_in.PolicyRole] = field(default_factory=lambda: dict(built_in.ROLES))
    rules: Sequence[Rule] = ()
    assigned: Mapping[str, frozenset[str]] = field(default_factory=dict)
    vouched: Mapping[str, frozenset[str]] = field(default_factory=dict)
    default_roles: frozenset[str] = NO_ROLES
    is_versioned: bool = True
    public: Sequence[str] = ()


class Policy:
    """Decides who may do what at one gateway.

    Args:
        told: the rules.
        here: the gateway.
        rights_max: so many principals' rights are remembered.

    Attributes:
        here: as given.

    """

    def __init__(
        self, told: PolicyRules, here: ActionPlace = HERE, rights_max: int = RIGHTS_MAX
    ) -> None:
        self.here = here
        self.told = told
        self._rights_max = rights_max
        self._rights: OrderedDict[_Key, Rights] = OrderedDict()
        self._assigned = {**built_in.ASSIGNED, **told.assigned}
        everything = [rule for role in told.roles.values() for rule in role.rules]
        everything += told.rules
        self._public_here = public_paths.rules_here(told.public)
        self._public_elsewhere = public_paths.rules_elsewhere(told.public)
        self._has_places = bool(told.public) or any(rule.at for rule in everything)
        self._has_client_ids = any("%c" in rule.target for rule in everything)
        self._named = frozenset(rule.who for rule in everything)
        self._verbs_with_names = frozenset(rule.verb for rule in everything if "%u" in rule.target)

    def principal(self, kind: str, name: str = "", claimed: frozenset[str] = NO_ROLES) -> Principal:
        """Return who somebody is that has given proof here.

        Args:
            kind: of the proof; see `gateway.trust.policy.principal`.
            name: within that kind.
            claimed: the roles that a certificate names.

        Raises:
            PrincipalError: there is no such kind, or the name does not go with it.

        """
        found = Principal(kind, name)
        if kind == GATEWAY:
            return Principal(kind, name, self._vouched_by(name))
        assigned = self._assigned.get(str(found))
        if assigned is not None or claimed or kind in NAMELESS:
            return Principal(kind, name, claimed | (assigned or NO_ROLES))
        for text in (f"{kind}:{ANY_NAME}", EVERYBODY):
            if text in self._assigned:
                return Principal(kind, name, self._assigned[text])
        return Principal(kind, name, self.told.default_roles)

    def vouched(self, principal: Principal, gateway_id: str) -> Principal:
        """Return who somebody is for whom another gateway vouches.

        Args:
            principal: as that gateway says, its roles too.
            gateway_id: that gateway.

        """
        if principal.kind == LOCAL:  # its machine, which is told what its gateway is
            roles = frozenset({built_in.GATEWAY})
        else:
            most = self._vouched_by(gateway_id)
            roles = self.all_roles(principal.roles) & self.all_roles(most)
        return replace(principal, roles=roles, via=gateway_id or EVERYBODY)

    def _vouched_by(self, gateway_id: str) -> frozenset[str]:
        """Return the roles that a gateway may vouch for."""
        vouched = self.told.vouched
        return vouched.get(gateway_id, vouched.get(EVERYBODY, built_in.VOUCHED))

    def all_roles(self, roles: frozenset[str]) -> frozenset[str]:
        """Return roles with all that they include, over any number of steps."""
        found: set[str] = set()
        ahead = list(roles)
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += self.told.roles[name].includes if name in self.told.roles else ()
        return frozenset(found)

    def goes_by_name(self, principal: Principal, *verbs: str) -> bool:
        """Return whether what somebody may do depends on its name, beside its kind and roles.

        All others of the same kind and with the same roles may do the same.

        Args:
            principal: of `principal`.
            verbs: what it does; see `gateway.trust.policy.action`.

        """
        return str(principal) in self._named or not self._verbs_with_names.isdisjoint(verbs)

    def rights(
        self, principal: Principal, client_id: str = "", where: ActionPlace = HERE
    ) -> Rights:
        """Return what a principal may do at a gateway.

        Args:
            principal: of `principal` or `vouched`.
            client_id: over MQTT, how it calls itself.
            where: the gateway; this one unless it is given.

        """
        is_elsewhere = self._has_places and where.gateway not in ("", self.here.gateway)
        if is_elsewhere:  # not remembered: who asks makes up as many gateways as it likes
            return self._made(principal, client_id, where)
        key = (principal, client_id if self._has_client_ids else "")
        rights = self._rights.get(key)
        if rights is not None:
            self._rights.move_to_end(key)
            return rights
        if len(self._rights) >= self._rights_max:
            self._rights.popitem(last=False)
        rights = self._rights[key] = self._made(principal, client_id, self.here)
        return rights

    def may(self, principal: Principal, action: Action) -> Decision:
        """Return whether a principal may do something.

        Args:
            principal: of `principal` or `vouched`.
            action: what, and where.

        """
        rights = self.rights(principal, action.client_id, action.where)
        return rights.decide(action.verb, action.target)

    def _made(self, principal: Principal, client_id: str, where: ActionPlace) -> Rights:
        roles = self.all_roles(principal.roles)
        known = self.told.roles
        own = [rule for role in sorted(roles) if role in known for rule in known[role].rules]
        if principal.kind == GATEWAY:
            own.append(built_in.OF_GATEWAYS)
        is_here = where.gateway in ("", self.here.gateway)
        public = self._public_here if is_here else self._public_elsewhere
        # The public ones last: where another one allows the same, that is why it may.
        rules = rules_for((*self.told.rules, *own, *public), principal, roles)
        holding = (rule for rule in rules if rule.holds_at(where))
        return Rights(holding, principal.name or None, client_id)
