"""Making and taking out the lines of a file of pre-shared keys."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from dtls import keystore
from dtls.byte_order_mark import text_of
from dtls.errors import KeystoreError
from gateway.base import replaced_file
from gateway.base.lone_change import alone

KEY_BYTES = 32


def add(path: Path, identity: str) -> str:
    """Make a key of a new identity; its line is added to the file.

    Args:
        path: the file; a new one is for its owner alone.
        identity: that it has not.

    Returns:
        The key in hexadecimal, which is nowhere else.

    Raises:
        KeystoreError: the file can't be used, the identity can't be or is there already.
        OSError: the file can't be written.

    """
    key = secrets.token_hex(KEY_BYTES)
    keystore.Keystore({identity: bytes.fromhex(key)})  # whether it can be one
    with _held(path):
        text = _text(path)
        if text and not text.endswith("\n"):
            text += "\n"
        _write(path, f"{text}{identity}:{key}\n")
    return key


def take_out(path: Path, identity: str) -> bool:
    """Take out the line of an identity, and return whether it was there.

    Raises:
        KeystoreError: the file can't be used.
        OSError: it can't be written.

    """
    with _held(path):
        lines = _text(path).splitlines()
        kept = [line for line in lines if not _is_of(line, identity)]
        if kept != lines:
            _write(path, "".join(f"{line}\n" for line in kept))
    return kept != lines


def _text(path: Path) -> str:
    if not path.exists():
        return ""
    keystore.load(path)  # with its mode
    return text_of(path.read_bytes())


def _write(path: Path, text: str) -> None:
    keystore.parse(text, str(path))
    data, file = text.encode(), path.resolve()  # what a link leads to, and not the link
    replaced_file.replace(file, data, is_durable=True, keeps_owner=True, mode=0o600)


def _is_of(line: str, identity: str) -> bool:
    return line.strip().rpartition(":")[0] == identity and not line.lstrip().startswith("#")


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Let no other command change the file meanwhile."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(alone(path))
        except OSError as error:
            raise KeystoreError(str(path), None, error.strerror or str(error)) from error
        yield
