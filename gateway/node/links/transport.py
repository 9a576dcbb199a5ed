"""The seam between links and what carries them: an address that is dialled, and who is found there.

A link reads and writes an `asyncio.Transport`, whatever is below. All that differs from one
transport to another is behind `Address` and in `FarEnd`; `gateway.node.links.tcp` has them for TCP.
Whoever listens hands a connection over to `TreeNode.accept`, once `LinkAdmission` has let it in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.node.links.link_tls import LinkTls


class Address(Protocol):
    """An address at which a neighbour takes links; its text is what logs and status say.

    It is a key: two that are equal are one place.
    """

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        """Connect to it.

        Args:
            link: gets the connection.
            tls: the certificate to show and what to ask of the other end's; None for neither.

        Raises:
            OSError: unreachable, closed, or no TLS came about.
            HandshakeError: the certificate of the other end is no gateway's.

        """


@dataclass(frozen=True, slots=True)
class FarEnd:
    """The other end of a connection, as its transport knows it.

    Attributes:
        address: where the connection comes from or leads to, for status and logs.
        source: the same for all connections of one machine: limits of hand-shakes go by it.
        shown_id: the gateway whose certificate was verified when it was dialled; None where none
            was, which makes no link where certificates are asked for.
        at_port: gives the address of a port there at which links are taken; None where the
            transport has no ports, and who dialled can't be dialled back.

    """

    address: str
    source: str
    shown_id: str | None = None
    at_port: Callable[[int], Address] | None = None
