"""The key of the links in mails: made once, kept for its owner, and made anew if it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.ack_link import KEY_BYTES
from gateway.alerting.link_key import FILE_NAME, link_key


def test_a_key_is_made_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    made = link_key(tmp_path)
    assert len(made) == KEY_BYTES
    assert link_key(tmp_path) == made
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("length", [1, KEY_BYTES - 1, KEY_BYTES + 1])
def test_a_key_of_another_length_is_set_aside_and_another_made(tmp_path: Path, length: int) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"k" * length)
    made = link_key(tmp_path)
    assert len(made) == KEY_BYTES
    assert (tmp_path / f"{FILE_NAME}.damaged-1").read_bytes() == b"k" * length
    assert link_key(tmp_path) == made
