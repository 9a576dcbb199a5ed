"""Trust of a way out over TLS."""

from __future__ import annotations

import ssl
from pathlib import Path


def tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Return whom a client trusts.

    Args:
        authorities: in PEM; None for the system's.

    Raises:
        OSError: they can't be read, or are none.

    """
    return ssl.create_default_context(cafile=None if authorities is None else str(authorities))
