"""Passwords of keys: from a file, or from systemd's credentials (systemd.exec(5)).

``LoadCredential=`` or ``LoadCredentialEncrypted=`` of the unit puts a credential into the folder
that ``$CREDENTIALS_DIRECTORY`` names, where the service alone can read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dtls import private_file
from dtls.byte_order_mark import first_line, why_utf_16

CA_PASSWORD = "hedgerow-ca-password"  # noqa: S105  # a credential's name
KEYSTORE_PASSWORD = "hedgerow-keystore-password"  # noqa: S105
_DIRECTORY = "CREDENTIALS_DIRECTORY"


def held(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of a credential that systemd hands to this service; None if it hands over
    none.

    Args:
        name: the credential's.
        environment: names the folder.

    """
    folder = environment.get(_DIRECTORY, "")
    file = Path(folder) / name
    return file if folder and file.is_file() else None


class CredentialError(ValueError):
    """A password can't be had: ``str(error)`` is one line without it."""


def password(
    file: Path | None, credential: str, environment: Mapping[str, str] = os.environ
) -> bytes | None:
    """Return a password: the first line of a file.

    Args:
        file: which; None for the credential, if there is one.
        credential: its name in systemd's folder.
        environment: names that folder.

    Returns:
        None if neither is there.

    Raises:
        CredentialError: the file can't be read, lets others in or begins with an empty line.

    """
    if file is None:
        file = held(credential, environment)
        if file is None:
            return None
    try:
        data = private_file.read(file)
    except OSError as error:
        raise CredentialError(f"{file}: {error.strerror or error}") from error
    if why := why_utf_16(data):
        raise CredentialError(f"{file}: {why}")
    line = first_line(data)
    if not line:
        raise CredentialError(f"{file}: no password in its first line")
    return line
