"""The key by which a gateway signs the links in its mails; made when it is first needed."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from alerts.ack_link import KEY_BYTES
from gateway.base.kept_file import KeptFile

FILE_NAME: Final = "alert_links"
_WITHOUT: Final = "links in mails that were sent before take nothing on any more"


def link_key(state_dir: Path) -> bytes:
    """Return it.

    Args:
        state_dir: where it is kept.

    Raises:
        OSError: it can't be read or written.

    """
    file = KeptFile(state_dir / FILE_NAME, _WITHOUT, is_durable=True)
    key = file.read(_checked)
    if key is None:
        key = secrets.token_bytes(KEY_BYTES)
        file.write(key)
    return key


def _checked(data: bytes) -> bytes:
    if len(data) != KEY_BYTES:
        raise ValueError(f"{len(data)} bytes, not {KEY_BYTES}")
    return data
