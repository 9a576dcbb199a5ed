"""Access over CoAP: who may do what, decided once before any resource is asked (row A8).

Who somebody is has been proven by its session, its message or its address; what it may do the
policy says. What is refused here is refused whatever a resource forgets to check.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.peers import VouchedAddress, known_as
from gateway.trust.policy.action import READS, coap_action
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import (
    NAMELESS,
    STRANGER,
    THE_STRANGER,
    Principal,
    PrincipalError,
)
from gateway.trust.policy.rule import Decision

_log = logging.getLogger(__name__)
KNOWN_MAX: Final = 256
"""Peers of which it is remembered who they are and what they were allowed."""
DECISIONS_MAX: Final = 64
"""Remembered decisions on what one peer may do."""
DECIDED_MAX: Final = 4_096
"""Remembered decisions on paths, of all together: a list takes two for each of its sensors."""
_REMEMBERED_BYTES: Final = 128
"""Decisions on longer requests are made anew each time: a client chooses how long they are."""
METHOD_NAMES: Final = {
    codes.GET: "GET",
    codes.FETCH: "FETCH",
    codes.POST: "POST",
    codes.PUT: "PUT",
    codes.PATCH: "PATCH",
    codes.IPATCH: "iPATCH",
    codes.DELETE: "DELETE",
}
"""As policies and gateways among themselves call them."""
_UNKNOWN: Final = "POST"
"""A method that nobody knows is a write; the resource says that there is none such."""
_NO_READ: Final = CoapResponse(codes.UNAUTHORIZED, (), b"reading this needs a key (coaps)")
_NO_WRITE: Final = CoapResponse(codes.UNAUTHORIZED, (), b"this needs a key (coaps)")
_WHO_BYTES_MAX: Final = 200

_What = tuple[int, tuple[Option, ...]]
"""A request's code and options."""
_MethodAndPath = tuple[str, tuple[str, ...]]
"""The name of a method, and the segments of a path."""
_NOTHING: Final[Mapping[_MethodAndPath, Decision]] = {}


Introduction = tuple[str | None, tuple[str, ...]]
"""The text of a principal (None: a stranger), and its roles."""


def identity_of(request: Any) -> PeerIdentity:
    """Return who sent an aiocoap request; `ANONYMOUS` if its transport does not know."""
    identity = getattr(request.remote, "identity", ANONYMOUS)
    return identity if isinstance(identity, PeerIdentity) else ANONYMOUS


class _KnownPeer:
    """A peer as the policy knows it, and the decisions on what it asked for."""

    __slots__ = ("decisions", "introduction", "principal")

    def __init__(self, principal: Principal, introduction: Introduction) -> None:
        self.principal = principal
        self.introduction = introduction
        self.decisions: dict[_What, Decision] = {}


class CoapAccess:
    """Decides of each request whether its peer may make it.

    Args:
        policy: of this gateway.

    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: dict[PeerIdentity | VouchedAddress, _KnownPeer] = {}
        self._decided: dict[Principal, dict[_MethodAndPath, Decision]] = {}
        self._decided_count = 0
        self._told: list[Callable[[], None]] = []
        self._failures = Failures(CountedLines(_log, time.monotonic))

    def follow(self, policy: Policy) -> None:
        """Go by another policy from now on."""
        self._policy = policy
        self._known.clear()
        self._forget()
        for told in self._told:
            self._failures.tried("go by another policy", told)

    def tell_of_changes(self, told: Callable[[], None]) -> None:
        """Call this after the policy is another one."""
        self._told.append(told)

    # -- of peers --------------------------------------------------------------------------------

    def refusal(self, request: CoapRequest, peer: CoapPeer) -> CoapResponse | None:
        """Return what a peer is told that may not do this; None if it may."""
        known = self._of(peer)
        decision = known.decisions.get((request.code, request.options))
        if decision is None:
            decision = self._decide(known, request)
        if decision.is_allowed:
            return None
        return refused(known.principal, METHOD_NAMES.get(request.code, _UNKNOWN))

    def tells_all(self, request: CoapRequest, peer: CoapPeer) -> bool:
        """Return whether a peer may do more here than read what anybody may."""
        known = self._of(peer)
        return not self._decide(known, request).is_public

    def lets(self, peer: CoapPeer, method: str, path: Sequence[str]) -> bool:
        """Return whether a peer may do something, here or at the gateway that the path leads to."""
        return self.may(self._of(peer).principal, method, path).is_allowed

    def introduction(self, peer: CoapPeer) -> Introduction:
        """Return how another gateway is told who a peer is; see `introduced`."""
        return self._of(peer).introduction

    def _of(self, peer: CoapPeer) -> _KnownPeer:
        who = known_as(peer)
        known = self._known.get(who)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            if isinstance(who, VouchedAddress):
                principal = self.vouched(who.text, who.roles, who.gateway_id)
            else:
                principal = self.principal(who)
            known = _KnownPeer(principal, self.introduced(principal))
            self._known[who] = known
        return known

    def _decide(self, known: _KnownPeer, request: CoapRequest) -> Decision:
        what = (request.code, request.options)
        decision = known.decisions.get(what)
        if decision is not None:
            return decision
        method = METHOD_NAMES.get(request.code, _UNKNOWN)
        path = request.values(option_numbers.URI_PATH)
        decision = self._policy.may(known.principal, coap_action(method, path, self._policy.here))
        if is_short(request.options):
            if len(known.decisions) >= DECISIONS_MAX:
                known.decisions.clear()
            known.decisions[what] = decision
        return decision

    # -- of others -------------------------------------------------------------------------------

    def principal(self, identity: PeerIdentity) -> Principal:
        """Return who a peer is to the policy."""
        kind = STRANGER if identity.proof is Proof.NONE else identity.proof.value
        return self._policy.principal(kind, identity.name, identity.roles)

    def proven(self, kind: str, name: str, claimed: frozenset[str]) -> Introduction:
        """Return how somebody is introduced that has given proof here, over whatever protocol.

        Args:
            kind: of the proof; see `gateway.trust.policy.principal`.
            name: within that kind.
            claimed: the roles that a certificate names.

        """
        return self.introduced(self._policy.principal(kind, name, claimed))

    def principal_of(self, remote: Any) -> Principal:
        """Return who stands behind ``request.remote`` of an aiocoap request."""
        principal = getattr(remote, "principal", None)
        if isinstance(principal, Principal):
            return principal
        identity = getattr(remote, "identity", ANONYMOUS)
        return self.principal(identity if isinstance(identity, PeerIdentity) else ANONYMOUS)

    def introduced(self, principal: Principal) -> Introduction:
        """Return a principal's text for other gateways (None: a stranger), and all its roles."""
        roles = sorted(self._policy.all_roles(principal.roles))
        return None if principal.kind == STRANGER else str(principal), tuple(roles)

    def vouched(self, text: str | None, roles: Iterable[str], gateway_id: str) -> Principal:
        """Return who somebody is whom another gateway introduces.

        Args:
            text: as of `introduced`.
            roles: as of `introduced`.
            gateway_id: that gateway; empty for this one.

        """
        had = frozenset(roles)
        try:
            principal = Principal(STRANGER, "", had) if text is None else Principal.parse(text, had)
        except PrincipalError:  # of a kind that only a later version of that gateway knows
            principal = THE_STRANGER
        return self._policy.vouched(principal, gateway_id) if gateway_id else principal

    def may(self, principal: Principal, method: str, path: Sequence[str]) -> Decision:
        """Return whether somebody may do something here.

        It is remembered: who lists hundreds of sensors asks this of each, again and again.

        Args:
            principal: who.
            method: its name, as ``GET``.
            path: segments.

        """
        return self.rights(principal).may(method, tuple(path))

    def rights(self, principal: Principal) -> CoapRights:
        """Return what decides for one principal: for who asks of hundreds of paths."""
        return CoapRights(self, principal)

    @property
    def policy(self) -> Policy:
        """The policy of now."""
        return self._policy

    def decided_of(self, principal: Principal) -> Mapping[_MethodAndPath, Decision]:
        """Return what is remembered of a principal by the policy of now."""
        return self._decided.get(principal, _NOTHING)

    def decide(self, principal: Principal, method: str, path: tuple[str, ...]) -> Decision:
        """Decide by the policy, and remember that until the policy changes or too much is
        remembered."""
        segments = [segment.encode() for segment in path]
        decision = self._policy.may(principal, coap_action(method, segments, self._policy.here))
        if sum(map(len, segments)) <= _REMEMBERED_BYTES:
            if self._decided_count >= DECIDED_MAX:
                self._forget()
            self._decided_count += 1
            self._decided.setdefault(principal, {})[method, path] = decision
        return decision

    def _forget(self) -> None:
        self._decided.clear()
        self._decided_count = 0


class CoapRights:
    """Decides what one principal may, by the policy of each moment.

    It holds what is remembered of this principal at hand: to find it takes as long as to decide.

    Args:
        access: knows the policy, and decides on what is not remembered.
        principal: who.

    """

    __slots__ = ("_access", "_decided", "_policy", "_principal")

    def __init__(self, access: CoapAccess, principal: Principal) -> None:
        self._access = access
        self._principal = principal
        self._policy = access.policy
        self._decided = access.decided_of(principal)

    def may(self, method: str, path: tuple[str, ...]) -> Decision:
        """Return whether it may do something here.

        Args:
            method: its name, as ``GET``.
            path: segments.

        """
        if self._access.policy is not self._policy:
            self._policy = self._access.policy
            self._decided = self._access.decided_of(self._principal)
        decision = self._decided.get((method, path))
        if decision is None:
            decision = self._access.decide(self._principal, method, path)
            self._decided = self._access.decided_of(self._principal)  # may be the first of it
        return decision


def is_short(options: tuple[Option, ...]) -> bool:
    """Return whether what is decided on a request with these options may be remembered."""
    return sum([len(value) for _, value in options]) <= _REMEMBERED_BYTES


def refused(principal: Principal, method: str) -> CoapResponse:
    """Return what somebody is told that may not do something.

    4.01 if a proof is missing, else 4.03 (RFC 7252, sections 5.9.2.2 and 5.9.2.4).

    Args:
        principal: who.
        method: its name.

    """
    if principal.kind in NAMELESS:
        return _NO_READ if method in READS else _NO_WRITE
    who = str(principal).encode()[:_WHO_BYTES_MAX].decode(errors="ignore")
    roles = ", ".join(sorted(principal.roles)) or "no role"
    if principal.via:  # it may well have more where it has given proof
        roles += f" by [vouch] through {principal.via}"
    return CoapResponse(codes.FORBIDDEN, (), f"{who} ({roles}) may not {method} this".encode())
