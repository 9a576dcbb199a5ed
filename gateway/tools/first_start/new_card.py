"""A new card's file for a first start, and what its maker is told of it."""

from __future__ import annotations

import secrets

from gateway.tools.first_start import setup_card, setup_certificate
from gateway.tools.first_start.setup_card import SetupCard
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewCard:
    """A file that was not there before.

    Attributes:
        card: what it says.
        fingerprint: of the page's certificate, its SHA-256.

    """

    card: SetupCard
    fingerprint: str

    @property
    def code(self) -> str:
        """The setup code, as it is shown."""
        return setup_card.shown(self.card.code)


def made() -> NewCard:
    """Return a new one, with a code and a certificate of its own."""
    certificate, key = setup_certificate.made()
    card = SetupCard(setup_card.new_code(secrets.randbelow), certificate, key)
    return NewCard(card, setup_certificate.fingerprint(certificate))
