"""Principals: a name within the kind of proof that was given, and roles.

The text of a principal is stable: files, logs and signed requests hold it. It is the kind, a colon
and the name as it was proven, or the kind alone where nobody is named:

    ==================  ==============================================================
    ``psk:NAME``        the identity of a pre-shared key (DTLS)
    ``oscore:NAME``     a table of ``coap.oscore_file``
    ``user:NAME``       an MQTT user who gave the password
    ``cert:NAME``       the common name of a certificate
    ``console:NAME``    a user of the console who gave the password
    ``gateway:ID``      a gateway of the tree, by the signature of what it published
    ``local``           without a name, from the gateway's own machine
    ``stranger``        without any proof
    ==================  ==============================================================

A name may hold colons; the first one ends the kind. `psk:alice` and `user:alice` are two.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from light_dataclasses import dataclass

PSK: Final = "psk"
OSCORE: Final = "oscore"
USER: Final = "user"
CERTIFICATE: Final = "cert"
CONSOLE: Final = "console"
GATEWAY: Final = "gateway"
LOCAL: Final = "local"
STRANGER: Final = "stranger"

NAMED: Final = (PSK, OSCORE, USER, CERTIFICATE, CONSOLE, GATEWAY)
"""Kinds of those who have a name."""
NAMELESS: Final = (LOCAL, STRANGER)
NO_ROLES: Final[frozenset[str]] = frozenset()


class PrincipalError(ValueError):
    """A text or a kind and a name that is no principal: ``str(error)`` is one line.

    Args:
        value: the text.

    """

    def __init__(self, value: str) -> None:
        kinds = ", ".join(f"{kind}:NAME" for kind in NAMED)
        super().__init__(f"{value!r} is none of {kinds}, {' and '.join(NAMELESS)}")
        self.value = value


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, once it is known who.

    Attributes:
        kind: how it was proven; one of `NAMED` or of `NAMELESS`.
        name: within that kind; empty for the nameless.
        roles: what it is.
        via: the gateway that vouches for it; empty if the proof was given here.

    Raises:
        PrincipalError: an unknown kind, or a name where there is none, or none where there is one.

    """

    kind: str
    name: str = ""
    roles: frozenset[str] = field(default=NO_ROLES)
    via: str = ""

    def __post_init__(self) -> None:
        if self.kind not in (NAMED if self.name else NAMELESS):
            raise PrincipalError(f"{self.kind}:{self.name}" if self.name else self.kind)

    @classmethod
    def parse(cls, text: str, roles: frozenset[str] = NO_ROLES, via: str = "") -> Principal:
        """Read the text of a principal.

        Args:
            text: as `str` gives it.
            roles: what it is.
            via: who vouches for it.

        Raises:
            PrincipalError: it is none.

        """
        kind, colon, name = text.partition(":")
        if colon and not name:
            raise PrincipalError(text)
        return cls(kind, name, roles, via)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


THE_STRANGER: Final = Principal(STRANGER)
"""Whoever has shown nothing."""
