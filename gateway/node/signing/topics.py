"""The topics under which gateways tell each other of certificates, revocations and lives."""

from __future__ import annotations

from typing import Final

CERTIFICATES: Final = b"$hedgerow/certificates"
"""`gateway.node.signing.certificate_part`, from neighbour to neighbour."""
REVOCATIONS: Final = b"$hedgerow/revocations"
"""`gateway.node.signing.revocation_part`, likewise."""
ASK_LIFE: Final = "$hedgerow/alive/ask/"
"""`gateway.node.signing.life_proof`, to all; the id of who is asked follows."""
ANSWER_LIFE: Final = "$hedgerow/alive/answer/"
"""Likewise; the id of who has asked follows."""
