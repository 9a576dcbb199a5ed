"""One OSCORE context at work: aiocoap's cryptography over our keys and numbers."""

from __future__ import annotations

from typing import Any

from aiocoap import oscore

from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import SenderNumbers


class OscoreContext(
    oscore.CanProtect,  # type: ignore[misc]  # aiocoap is untyped
    oscore.CanUnprotect,  # type: ignore[misc]  # as above
    oscore.SecurityContextUtils,  # type: ignore[misc]  # as above
):
    """Takes requests of one device, each once, and protects their answers.

    Which numbers the device has used is not kept over a restart. Its first request after one is
    answered with an Echo, and counts when it is repeated with that (RFC 8613, appendix B.1.2): so
    nothing that was sent before is taken again, whatever became of the disk.

    Args:
        keys: shared with the device.
        numbers: gives ours.
        echo: that Echo, which nobody can foresee.

    """

    def __init__(self, keys: OscoreKeys, numbers: SenderNumbers, echo: bytes) -> None:
        self.keys = keys
        self.alg_aead = oscore.algorithms[oscore.DEFAULT_ALGORITHM]
        self.hashfun = oscore.hashfunctions[oscore.DEFAULT_HASHFUNCTION]
        self.sender_id = keys.sender_id
        self.recipient_id = keys.recipient_id
        self.id_context = keys.id_context
        self.derive_keys(keys.master_salt, keys.master_secret)
        self.recipient_replay_window: Any = oscore.ReplayWindow(
            oscore.DEFAULT_WINDOWSIZE, lambda: None
        )
        self.echo_recovery = echo
        self.sender_sequence_number = numbers.first(keys.name)
        self._numbers = numbers

    def post_seqnoincrease(self) -> None:
        """Called by aiocoap before it uses a number."""
        self._numbers.use_below(self.keys.name, self.sender_sequence_number)

    def __repr__(self) -> str:
        """Fit for a log line: no key."""
        return f"<OSCORE context of {self.keys.name}>"
