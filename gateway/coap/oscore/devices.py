"""The devices that use OSCORE, as a file names them; those that stay the same go on at a reload."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gateway.coap.oscore.context import OscoreContext
    from gateway.coap.oscore.keys import OscoreKeys
    from gateway.coap.oscore.numbers import SenderNumbers

OscoreContexts: TypeAlias = "Mapping[tuple[bytes, bytes | None], OscoreContext]"
"""By kid and kid context."""
ECHO_BYTES = 8
"""The length of the value by which a device proves after a start that its request is new."""

_WHAT_TO_DO = (
    "Give each of them new keys (coap.oscore_file), then remove this file and {}, and restart"
)

_log = logging.getLogger(__name__)


class OscoreDevices:
    """The contexts of one gateway.

    A context whose keys stay keeps its numbers and what it has seen. One that comes begins behind
    all numbers that its name ever had: it may be one that was taken out (RFC 8613, section 7.2.1).

    Args:
        state_dir: where numbers are kept.

    Attributes:
        contexts: those that are gone by.

    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._numbers: SenderNumbers | None = None
        self.contexts: OscoreContexts = {}

    def contexts_of(self, found: Iterable[OscoreKeys]) -> OscoreContexts:
        """Return a context for each of these, and for no other; none is gone by yet.

        Where the numbers are lost that were used, devices that are new here get no answer, and the
        log says so: with their keys none could be given that is surely new.

        Raises:
            OSError: numbers can't be read or kept; all stays as it was.

        """
        there = {context.keys: context for context in self.contexts.values()}
        told = list(found)
        new = [keys for keys in told if keys not in there]
        if new:
            # aiocoap's OSCORE takes a while to load, and is needed only here.
            from gateway.coap.oscore.context import OscoreContext  # noqa: PLC0415  # as it says

            names = [keys.name for keys in new]
            numbers = self._begun(names)
            if numbers is not None:
                for keys in new:
                    echo = secrets.token_bytes(ECHO_BYTES)
                    there[keys] = OscoreContext(keys, numbers, echo)
        return {keys.known_by: there[keys] for keys in told if keys in there}

    def _begun(self, names: Iterable[str]) -> SenderNumbers | None:
        """Return numbers that begin for contexts of these names; None where they are lost."""
        if self._numbers is not None:
            self._numbers.begin(names)
            return self._numbers
        from gateway.coap.oscore.numbers import (  # noqa: PLC0415  # as above
            COPY,
            NAME,
            NumbersError,
            SenderNumbers,
        )

        try:
            self._numbers = SenderNumbers(self._state_dir / NAME, names, secrets.randbelow)
        except NumbersError as error:
            copy = f"{NAME}{COPY}"
            _log.error("%s: no device is served over OSCORE. %s", error, _WHAT_TO_DO.format(copy))
        return self._numbers
