"""One registration: an endpoint, its base, its lifetime and its links (RFC 9176, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import chain
from operator import itemgetter
from typing import Final

from light_dataclasses import dataclass
from resource_directory.errors import InvalidParameterError, TooLargeError
from resource_directory.link_format import (
    LISTS,
    LinkAttributes,
    LinkFormatError,
    WebLink,
    written_attributes,
)
from resource_directory.uri import is_path, normalised, resolve, root_of

DEFAULT_LIFETIME_S: Final = 90_000
MAX_LIFETIME_S: Final = 4_294_967_295
MAX_NAME_BYTES: Final = 63
BYTES_ITSELF: Final = 800
BYTES_OF_LINK: Final = 450
BYTES_OF_ATTRIBUTE: Final = 180
BYTES_OF_LISTED: Final = 100
BYTES_OF_NAME: Final = 350
"""The memory that a registration takes besides its characters: itself, a link, an attribute, each
value of a list behind the first, and each name that no other has, perhaps."""
_NAME_OF: Final = itemgetter(0)
NAMES_IN_COMMON: Final = 64
"""So many names of attributes may be those of others, too."""

# RFC 9176, section 9.3: parameters of a look-up, or names of something else in its answer.
RESERVED: Final = frozenset({"page", "count", "rt", "href", "anchor", "ep", "d", "lt", "base"})

Attributes = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Registration:
    """A registration: an endpoint, its attributes and its links.

    Attributes:
        location: path of its registration resource; never another endpoint's.
        endpoint: the endpoint's name, unique in its sector.
        sector: the sector, or ``""``.
        base: the URI that relative links resolve against.
        base_is_explicit: the endpoint gave it, so that a new source address doesn't change it.
        lifetime_s: how long it lasts without an update, seconds.
        expires_at: when it ends.
        owner: identity that made it and alone may change it; None for an anonymous one.
        attributes: the endpoint's further attributes, such as ``et``.
        links: as the endpoint gave them.
        texts: the links with target and anchor as URIs, as link format.
        link_attributes: of the links so written; most are those that the endpoint gave.
        held: about how many bytes of memory it takes.
        order: where it stands in look-ups, and its links behind it.

    """

    location: str
    endpoint: str
    sector: str
    base: str
    base_is_explicit: bool
    lifetime_s: int
    expires_at: float
    owner: str | None
    attributes: Attributes
    links: tuple[WebLink, ...]
    texts: tuple[str, ...] = ()
    link_attributes: tuple[LinkAttributes, ...] = ()
    held: int = field(default_factory=int, compare=False)
    order: int = field(default_factory=int, compare=False)
    _are_normal: bool | None = field(default=None, compare=False)
    """True if the targets are written as they are looked for, as most are; None before anybody has
    looked: most registrations are renewed more often than that."""

    def link_keys(self) -> range:
        """Return the numbers of its links in look-ups."""
        return range(self.order + 1, self.order + 1 + len(self.texts))

    def target(self, number: int) -> str:
        """Return the URI of a link, by its number from 0, as it is looked for
        (`uri.normalised`)."""
        text = self.texts[number]
        target = text[1 : text.index(">")]
        if self._are_normal is None:
            self._are_normal = self._has_normal_targets()
        return target if self._are_normal else normalised(target)

    @property
    def normal_base(self) -> str:
        """Return the base as it is looked for (`uri.normalised`)."""
        return normalised(self.base)

    def resolve(self) -> None:
        """Set what follows from the base and the links.

        Raises:
            InvalidParameterError: see `resolved_links`.

        """
        self.texts, self.link_attributes = resolved_links(self.base, self.links)
        self._are_normal = None

    def _has_normal_targets(self) -> bool:
        said, begin = "".join(self.texts), f"<{root_of(self.normal_base)}/"
        return (
            "%" not in said
            and "/." not in said
            and said.isascii()
            and all(text.startswith(begin) for text in self.texts)
        )

    def says_the_same_as(self, other: Registration) -> bool:
        """Return whether two registrations of an endpoint differ in nothing but when they end."""
        return (
            self.links == other.links
            and self.base == other.base
            and self.base_is_explicit == other.base_is_explicit
            and self.lifetime_s == other.lifetime_s
            and self.attributes == other.attributes
            and self.owner == other.owner
            and self.location == other.location
        )

    def endpoint_link(self) -> WebLink:
        """Return the link of an endpoint look-up's answer (RFC 9176, section 6.4); without
        ``lt``."""
        named = [("ep", self.endpoint)]
        if self.sector:
            named.append(("d", self.sector))
        named.append(("base", self.base))
        return WebLink(self.location, (*named, *self.attributes, ("rt", "core.rd-ep")))

    def size(self) -> int:
        """Return the estimated size in memory in bytes, in the index too, as measured."""
        characters = len(self.endpoint) + len(self.sector) + len(self.base)
        characters += sum(len(name) + len(value) for name, value in self.attributes)
        characters += 2 * sum(map(len, self.texts))
        of_links = list(chain.from_iterable([link.attributes for link in self.links]))
        attributes = len(self.attributes) + len(of_links)
        names = set(map(_NAME_OF, chain(self.attributes, of_links)))
        listed = 0
        if not LISTS.isdisjoint(names):
            listed = sum([value.count(" ") for name, value in of_links if value and name in LISTS])
        return (
            BYTES_ITSELF
            + characters
            + BYTES_OF_LINK * len(self.links)
            + BYTES_OF_ATTRIBUTE * attributes
            + BYTES_OF_LISTED * listed
            + BYTES_OF_NAME * max(0, len(names) - NAMES_IN_COMMON)
        )


def checked_name(what: str, name: str) -> str:
    """Return a name of an endpoint or sector (RFC 9176, section 5).

    Raises:
        InvalidParameterError: longer than 63 bytes, or with a control character.

    """
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidParameterError(f"{what} is longer than {MAX_NAME_BYTES} bytes", name)
    if not name.isprintable():
        raise InvalidParameterError(f"{what} has a control character", name)
    return name


def checked_lifetime(lifetime_s: int) -> int:
    """Return a lifetime, seconds.

    Raises:
        InvalidParameterError: not 1 to 4294967295.

    """
    if not 1 <= lifetime_s <= MAX_LIFETIME_S:
        raise InvalidParameterError(f"lt is not 1 to {MAX_LIFETIME_S}", lifetime_s)
    return lifetime_s


def checked_attributes(attributes: Sequence[tuple[str, str]], limit: int) -> Attributes:
    """Attributes of an endpoint.

    Raises:
        InvalidParameterError: a name that a look-up uses otherwise, or that no link can carry.
        TooLargeError: more than ``limit``.

    """
    if len(attributes) > limit:
        raise TooLargeError(f"more than {limit} endpoint attributes", len(attributes))
    for name, value in attributes:
        if name in RESERVED:
            raise InvalidParameterError("parameter not for a registration", name)
        try:
            written_attributes(((name, value),))
        except LinkFormatError as error:
            raise InvalidParameterError(f"parameter {name[:40]!r}", value) from error
    return tuple(attributes)


def resolved_links(
    base: str, links: Sequence[WebLink]
) -> tuple[tuple[str, ...], tuple[LinkAttributes, ...]]:
    """Return the links with target and anchor resolved, as a resource look-up answers them.

    A missing anchor stays missing: it means the target's origin, which resolving does not change
    (RFC 6690, section 2.1).

    Returns:
        The links as text, and their attributes.

    Raises:
        InvalidParameterError: a link has a target or anchor that is no URI reference, or can't
            be written as link format.

    """
    texts: list[str] = []
    found: list[LinkAttributes] = []
    root = root_of(base)
    for link in links:
        # What was resolved has no character that a target may not have.
        href = root + link.href if is_path(link.href) else resolve(base, link.href)
        attributes = link.attributes
        try:
            written = written_attributes(attributes)
            if ";anchor" in written:
                attributes = tuple(
                    (
                        name,
                        resolve(base, value) if name == "anchor" and value is not None else value,
                    )
                    for name, value in attributes
                )
                written = written_attributes(attributes)
        except LinkFormatError as error:
            raise InvalidParameterError(f"link ({error.what})", link.href) from error
        found.append(attributes)
        texts.append(f"<{href}>{written}")
    return tuple(texts), tuple(found)
