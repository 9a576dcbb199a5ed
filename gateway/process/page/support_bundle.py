"""A bundle for whoever helps: what the gateway says of itself, and no secret."""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

HIDDEN: Final = "(not in this bundle)"
_SECRET: Final = re.compile(r"(password|passphrase|secret|token|key|hash|credential)", re.I)
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/@\s]+@")
_IN_QUERY: Final = re.compile(r"(?<=\?)\S+")


def bundle(folder: str, files: Mapping[str, bytes], time_s: float | None = None) -> bytes:
    """Return an archive, as ``tar`` and ``gzip`` make it.

    Args:
        folder: that its files are in.
        files: by name.
        time_s: of all files, in seconds since 1970; None for now.

    """
    made_s = time.time() if time_s is None else time_s
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(body), int(made_s), 0o600
            archive.addfile(member, io.BytesIO(body))
    return out.getvalue()


def configuration(file: Path | None) -> bytes:
    """Return a configuration as JSON, without what may be a secret.

    Files of secrets are named: their paths say which there are, and hold nothing.

    Args:
        file: it; None where there is none.

    """
    if file is None:
        return b"{}"
    try:
        found = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        return json.dumps({"error": f"it can't be read: {type(error).__name__}"}).encode()
    return json.dumps(without_secrets(found), indent=1, default=str).encode()


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a document without texts and numbers whose name says that they may be a secret.

    Args:
        value: of it.
        name: of the value.

    """
    if isinstance(value, dict):
        return {key: without_secrets(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one, name) for one in value]
    if _SECRET.search(name) and not name.endswith(("_file", "_files", "_dir")):
        return HIDDEN
    if isinstance(value, str):
        return _IN_QUERY.sub(HIDDEN, _IN_ADDRESS.sub(f"{HIDDEN}@", value))
    return value
