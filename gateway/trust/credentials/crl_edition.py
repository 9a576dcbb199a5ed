"""Names of authorities, and editions of their revocation lists (RFC 5280, section 5).

They are what gateways tell each other of lists: nothing of X.509 is needed to read them.
"""

from __future__ import annotations

from typing import Final

NAME_BYTES: Final = 16
"""The length of the digest that names an authority."""
NO_NUMBER: Final = -1
"""Of a list that has none, which an older profile allows: every number is newer."""
NUMBER_BYTES: Final = 20
NUMBER_MAX: Final = (1 << 8 * NUMBER_BYTES) - 1
"""Section 5.2.3."""

Edition = tuple[int, float]
"""CRL number (section 5.2.3), then thisUpdate (5.1.2.4), in seconds since 1970: more is newer."""
