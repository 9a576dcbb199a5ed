"""The registry: registers, updates and removes endpoints and their links (RFC 9176, section 5).

Rules stated here and nowhere else:

- An endpoint's name and sector name one registration. Registering again replaces its content and
  keeps its location, so that a repeated request changes nothing (section 5).
- First come, first remembered (section 7.5): while a registration is active, only the identity
  that made it may replace, update or remove it. Anonymous ones share one identity: none.
- What is over a limit is refused and changes nothing.

Time is an argument, seconds of any steady clock. A registration is gone from look-ups when its
lifetime has passed, whether or not ``expire`` has freed it yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from light_dataclasses import dataclass
from resource_directory.errors import (
    DirectoryFullError,
    InvalidParameterError,
    NoSuchRegistrationError,
    NotOwnerError,
    TooLargeError,
)
from resource_directory.expiry import Expiry
from resource_directory.link_format import WebLink
from resource_directory.lookup import LookUp
from resource_directory.owner_shares import OwnerShares
from resource_directory.query import LookupQuery
from resource_directory.registration import (
    DEFAULT_LIFETIME_S,
    Registration,
    checked_attributes,
    checked_lifetime,
    checked_name,
)
from resource_directory.search import LinkSearch
from resource_directory.terms import check_lists
from resource_directory.uri import checked_base

EXPIRED_PER_SLICE: Final = 16
"""So many registrations are freed in one call: below a millisecond on a PC."""


@dataclass(frozen=True, slots=True)
class RegistryLimits:
    """The limits of a directory; sizes are about, in bytes of memory."""

    registrations: int = 100_000
    registrations_per_owner: int = 25_000
    links_per_registration: int = 2_048
    """Each costs a dozen microseconds, in one turn."""
    attributes_per_endpoint: int = 32
    size_per_registration: int = 16 << 20
    size: int = 400 << 20
    size_per_owner: int = 100 << 20


class RegistryListener(Protocol):
    """A listener that a registry tells of each change after it."""

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        """A registration was made, replaced by another at the same location, or has gone.

        Args:
            before: as it was; None for a new one.
            after: as it is; None for one that was removed or is over.

        """

    def renewed(self, registration: Registration) -> None:
        """A registration ends later and says the same."""


class Registry:
    """Registrations of endpoints, found by name, location, or what their links say.

    Args:
        location_prefix: what the locations of new registrations start with: ``/rd/`` and something
            that is new at each start, so that no location that was given out before, and perhaps
            forgotten in a power cut, becomes another endpoint's.
        limits: what it holds at most.
        listeners: are told of each change.

    """

    def __init__(
        self,
        location_prefix: str = "/rd/",
        limits: RegistryLimits | None = None,
        listeners: Sequence[RegistryListener] = (),
    ) -> None:
        self._limits = limits or RegistryLimits()
        self._prefix = location_prefix
        self._listeners = listeners
        self._by_name: dict[tuple[str, str], Registration] = {}
        self._by_location: dict[str, Registration] = {}
        self._size = 0
        self._shares = OwnerShares(
            self._limits.registrations_per_owner, self._limits.size_per_owner
        )
        self._lookup = LookUp()
        self._expiry = Expiry()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._by_location)

    @property
    def links_max(self) -> int:
        """Return how many links a registration may have."""
        return self._limits.links_per_registration

    def at(self, location: str) -> Registration | None:
        """Return the registration at a location, even if its end has come; None if there is
        none."""
        return self._by_location.get(location)

    def registrations(self) -> Iterator[Registration]:
        """Return all that it holds, those included whose end has come and that are not freed
        yet."""
        return iter(self._by_location.values())

    def register(
        self,
        endpoint: str,
        links: Sequence[WebLink],
        now: float,
        *,
        base: str,
        base_is_explicit: bool = True,
        sector: str = "",
        lifetime_s: int = DEFAULT_LIFETIME_S,
        attributes: Sequence[tuple[str, str]] = (),
        owner: str | None = None,
    ) -> Registration:
        """Register an endpoint, or replace what it registered.

        Args:
            endpoint: its name, 1 to 63 bytes.
            links: its links.
            now: the time.
            base: what relative links resolve against.
            base_is_explicit: the endpoint named its base itself.
            sector: its sector, if it has one.
            lifetime_s: until when without an update, seconds.
            attributes: further attributes of the endpoint.
            owner: who registers; None if that is not known.

        Raises:
            InvalidParameterError: a parameter or link is wrong; it is named.
            NotOwnerError: the endpoint is registered by another.
            TooLargeError: it is over a limit on one registration.
            DirectoryFullError: the directory is full, or has as much of this owner as it may.

        """
        if not endpoint:
            raise InvalidParameterError("ep is missing")
        old = self.standing(checked_name("ep", endpoint), checked_name("d", sector), now)
        if old is not None and old.owner != owner:
            raise NotOwnerError("registered by another", endpoint)
        number = self._last_number + 1
        new = self._checked(
            Registration(
                location=f"{self._prefix}{number}" if old is None else old.location,
                endpoint=endpoint,
                sector=sector,
                base=base,
                base_is_explicit=base_is_explicit,
                lifetime_s=lifetime_s,
                expires_at=now + lifetime_s,
                owner=owner,
                attributes=tuple(attributes),
                links=tuple(links),
            )
        )
        if old is None:
            self._last_number = number
        return self._put(old, new)

    def restore(self, kept: Registration) -> Registration:
        """Put in a registration as an earlier life of this directory had it, location included.

        What stands under its name or location gives way to it.

        Raises:
            InvalidParameterError, TooLargeError, DirectoryFullError: as ``register``.

        """
        new = self._checked(kept)
        at_location = self._by_location.get(new.location)
        by_name = self._by_name.get((new.endpoint, new.sector))
        if at_location is not None and at_location is not by_name:
            self._drop(at_location)
        if by_name is not None and by_name.location != new.location:
            self._drop(by_name)
            by_name = None
        return self._put(by_name, new)

    def standing(self, endpoint: str, sector: str, now: float) -> Registration | None:
        """Return the registration of an endpoint; None if there is none, or it has expired."""
        found = self._by_name.get((endpoint, sector))
        if found is None or found.expires_at > now:
            return found
        self._drop(found)
        return None

    def check(
        self,
        endpoint: str,
        base: str,
        *,
        sector: str = "",
        attributes: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Check what can be said of a registration before its links are known.

        Raises:
            InvalidParameterError, TooLargeError: as ``register``.

        """
        if not endpoint:
            raise InvalidParameterError("ep is missing")
        checked_name("ep", endpoint)
        checked_name("d", sector)
        checked_base(base)
        checked_attributes(attributes, self._limits.attributes_per_endpoint)

    def update(
        self,
        location: str,
        now: float,
        *,
        base: str | None = None,
        source_base: str | None = None,
        lifetime_s: int | None = None,
        attributes: Sequence[tuple[str, str]] = (),
        owner: str | None = None,
    ) -> Registration:
        """Renew a registration, and change what is given (RFC 9176, section 5.3.1).

        Args:
            location: the registration.
            now: the time; its lifetime starts again.
            base: a new base that the endpoint named.
            source_base: a base from the request's source, used if the endpoint never named one.
            lifetime_s: a new lifetime, seconds; the one before if None.
            attributes: replace those of the same names.
            owner: who updates.

        Raises:
            NoSuchRegistrationError: there is none, or it has expired.
            InvalidParameterError, NotOwnerError, TooLargeError, DirectoryFullError: as
                ``register``; the registration stays as it was.

        """
        old = self._owned(location, now, owner)
        if base is None and not old.base_is_explicit:
            new_base = source_base or old.base
        else:
            new_base = base or old.base
        names = {name for name, _ in attributes}
        lifetime_s = old.lifetime_s if lifetime_s is None else lifetime_s
        new = replace(
            old,
            base=new_base,
            base_is_explicit=old.base_is_explicit or base is not None,
            lifetime_s=lifetime_s,
            expires_at=now + lifetime_s,
            attributes=(*(a for a in old.attributes if a[0] not in names), *attributes),
        )
        return self._put(old, self._checked(new))

    def remove(self, location: str, now: float, *, owner: str | None = None) -> None:
        """Remove a registration.

        Raises:
            NoSuchRegistrationError: there is none, or it has expired.
            NotOwnerError: it belongs to another.

        """
        self._drop(self._owned(location, now, owner))

    def get(self, location: str, now: float) -> Registration:
        """Return the registration at a location.

        Raises:
            NoSuchRegistrationError: there is none, or it has expired.

        """
        found = self._by_location.get(location)
        if found is None or found.expires_at <= now:
            raise NoSuchRegistrationError("no registration", location)
        return found

    def find_resources(self, query: LookupQuery, now: float) -> LinkSearch:
        """Look for the links that match, resolved, in the order in which they were registered.

        For a prefix that finds very many see `lookup`.
        """
        return self._lookup.resources(query, now)

    def find_endpoints(self, query: LookupQuery, now: float) -> LinkSearch:
        """Look for the endpoints that match, as links to their registrations, in the same order."""
        return self._lookup.endpoints(query, now)

    def expire(self, now: float, limit: int = EXPIRED_PER_SLICE) -> int:
        """Free at most ``limit`` registrations whose lifetime has passed.

        Returns:
            How much it did; 0 if nothing is left to do before ``next_timer``.

        """
        done = self._lookup.tidy(limit)
        for location in self._expiry.expired(now, limit - done):
            done += 1
            self._drop(self._by_location[location])
        return done

    @property
    def is_tidy(self) -> bool:
        """Return whether nothing is left behind by registrations that have gone."""
        return self._lookup.is_tidy

    def next_timer(self) -> float | None:
        """Return when ``expire`` has something to do; None if never."""
        return self._expiry.next_timer() if self._lookup.is_tidy else float("-inf")

    def _owned(self, location: str, now: float, owner: str | None) -> Registration:
        registration = self.get(location, now)
        if registration.owner != owner:
            raise NotOwnerError("registered by another", location)
        return registration

    def _checked(self, new: Registration) -> Registration:
        limits = self._limits
        if len(new.links) > limits.links_per_registration:
            raise TooLargeError(f"more than {limits.links_per_registration} links", len(new.links))
        checked_lifetime(new.lifetime_s)
        checked_base(new.base)
        checked_attributes(new.attributes, limits.attributes_per_endpoint)
        check_lists(new.links)
        new.resolve()
        new.held = new.size()
        if new.held > limits.size_per_registration:
            raise TooLargeError(f"larger than {limits.size_per_registration}", new.held)
        return new

    def _put(self, old: Registration | None, new: Registration) -> Registration:
        if old is not None and new.says_the_same_as(old):
            # Only renewed, the usual case: it keeps its place in paged look-ups.
            old.expires_at = new.expires_at
            self._expiry.set(old.location, old.expires_at)
            for listener in self._listeners:
                listener.renewed(old)
            return old
        freed = 0 if old is None else old.held
        if old is None and len(self._by_location) >= self._limits.registrations:
            raise DirectoryFullError(f"{self._limits.registrations} registrations")
        if self._size - freed + new.held > self._limits.size:
            raise DirectoryFullError(f"full at a size of {self._limits.size}")
        self._shares.check(old, new)
        if old is not None:
            self._forget(old)
        self._by_name[new.endpoint, new.sector] = self._by_location[new.location] = new
        self._size += new.held
        self._shares.add(new)
        self._lookup.add(new)
        self._expiry.set(new.location, new.expires_at)
        for listener in self._listeners:
            listener.changed(old, new)
        return new

    def _drop(self, registration: Registration) -> None:
        self._forget(registration)
        for listener in self._listeners:
            listener.changed(registration, None)

    def _forget(self, registration: Registration) -> None:
        del self._by_name[registration.endpoint, registration.sector]
        del self._by_location[registration.location]
        self._size -= registration.held
        self._shares.remove(registration)
        self._lookup.remove(registration)
        self._expiry.discard(registration.location)
