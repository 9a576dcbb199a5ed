"""The identity that a client has by its certificate; `certificates` reads one."""

from __future__ import annotations

from dataclasses import field

from light_dataclasses import dataclass

GATEWAY_ROLE = "gateway"
COLLECTOR_ROLE = "collector"
LINKED_ROLES = frozenset({GATEWAY_ROLE, COLLECTOR_ROLE})
"""The roles whose holders have links: gateways, and collectors, which only receive."""


class CertificateError(ValueError):
    """A verified certificate says nothing that can be used: ``str(error)`` is one line."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The identity that a client proved with its certificate.

    Attributes:
        name: the user name.
        roles: what else it is.
        der: the certificate itself; empty for a session that outlived it.

    """

    name: str
    roles: frozenset[str] = frozenset()
    der: bytes = field(default=b"", repr=False, compare=False)
