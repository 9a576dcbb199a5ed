"""The devices that use OSCORE, as a file names them; those that stay the same go on at a reload."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import NAME, SenderNumbers

if TYPE_CHECKING:
    from gateway.coap.oscore.context import OscoreContext

ECHO_BYTES = 8
"""By which a device proves after a start that its request is new."""


class OscoreDevices:
    """The contexts of one gateway.

    A context whose keys stay keeps its numbers and what it has seen. One that comes begins behind
    all numbers that its name ever had: it may be one that was taken out (RFC 8613, section 7.2.1).

    Args:
        state_dir: where numbers are kept.

    Attributes:
        contexts: by kid and kid context.

    """

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / NAME
        self._numbers: SenderNumbers | None = None
        self.contexts: Mapping[tuple[bytes, bytes | None], OscoreContext] = {}

    def follow(self, found: Iterable[OscoreKeys]) -> None:
        """Have a context for each of these, and no other.

        Raises:
            OSError: numbers can't be kept; all stays as it was.
            ValueError: those that are kept can't be read; all stays as it was.

        """
        there = {context.keys: context for context in self.contexts.values()}
        told = list(found)
        new = [keys for keys in told if keys not in there]
        if new:
            # aiocoap's OSCORE takes a while to load, and is needed only here.
            from gateway.coap.oscore.context import OscoreContext  # noqa: PLC0415  # as it says

            names = [keys.name for keys in new]
            if self._numbers is None:
                self._numbers = SenderNumbers(self._file, names, secrets.randbelow)
            else:
                self._numbers.begin(names)
            for keys in new:
                echo = secrets.token_bytes(ECHO_BYTES)
                there[keys] = OscoreContext(keys, self._numbers, echo)
        self.contexts = {keys.known_by: there[keys] for keys in told}
