"""Authenticity of an image: its checksum, and its makers' signature.

The checksum is SHA-256 of the file as it was downloaded, as `sha256sum` writes it; the signature
is OpenPGP's, checked by `gpgv` against a keyring that the caller names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gateway.tools.flashing import needed_programs
from gateway.tools.flashing.errors import RefusalError
from light_dataclasses import dataclass

_HEX = re.compile(r"[0-9a-fA-F]{64}")
_PIECE_BYTES = 1 << 20
_SIGNATURES = (".sig", ".asc", ".gpg", ".sign")
_MOST_BESIDE_BYTES = 1 << 20
_MOST_KEYRING_BYTES = 1 << 24
_GPGV_TIMEOUT_S = 600.0
CHECKSUMS = "SHA256SUMS"
"""The name that publishers give the file of a whole folder's checksums."""


@dataclass(frozen=True, slots=True)
class Authenticity:
    """The results of checking an image.

    Attributes:
        sha256: of its file, in hexadecimal.
        checksum_from: what it was compared with; empty if with nothing.
        signed_by: what `gpgv` says of the signature; empty if none was checked.

    """

    sha256: str
    checksum_from: str
    signed_by: str

    @property
    def is_checked(self) -> bool:
        """Return whether anything vouches for the image."""
        return bool(self.checksum_from or self.signed_by)


def check(image: Path, sha256: str | None, keyring: Path | None) -> Authenticity:
    """Check what there is: the given checksum or that beside the image, and a signature beside it.

    Args:
        image: its file.
        sha256: what it has to be; None for what a ``.sha256`` file beside it says, or else the
            folder's ``SHA256SUMS``, if there is one.
        keyring: whose signatures count, binary or armoured, of the image or of the ``SHA256SUMS``
            that its checksum is from; None checks none.

    Raises:
        RefusalError: one is wrong, or can't be checked though it was asked for.

    """
    expected, source = (sha256, "--sha256") if sha256 is not None else _beside(image)
    if expected and not _HEX.fullmatch(expected):
        raise RefusalError(f"{source}: {expected[:80]!r} is no SHA-256: 64 hexadecimal digits")
    found = _sha256(image)
    if expected and found != expected.lower():
        raise RefusalError(f"{image}: its SHA-256 is {found}, and {source} says {expected.lower()}")
    signed_by = ""
    if keyring is not None:
        signed = [image]
        if expected and source == str(image.with_name(CHECKSUMS)):
            signed.append(Path(source))  # which vouches for the image by its checksum
        signed_by = _signature(signed, keyring)
    return Authenticity(found, source if expected else "", signed_by)


def parse_checksums(text: str, name: str, *, takes_unnamed: bool) -> str:
    """Return the checksum of a file in what `sha256sum` wrote; empty if it is not in it.

    Args:
        text: its lines, each ``DIGITS  NAME``, or the digits alone.
        name: the file's, without its folder.
        takes_unnamed: whether digits alone are the file's, as where nothing else is meant.

    """
    for line in text.splitlines():
        digits, _, named = line.strip().partition(" ")
        own = named.strip().removeprefix("*")
        is_meant = own.rpartition("/")[2] == name if own else takes_unnamed
        if _HEX.fullmatch(digits) and is_meant:
            return digits
    return ""


def _beside(image: Path) -> tuple[str, str]:
    own, of_all = image.with_name(f"{image.name}.sha256"), image.with_name(CHECKSUMS)
    if own.exists():
        found = parse_checksums(_text(own), image.name, takes_unnamed=True)
        if not found:
            raise RefusalError(f"{own}: has no SHA-256 of {image.name}")
        return found, str(own)
    if of_all.exists():
        found = parse_checksums(_text(of_all), image.name, takes_unnamed=False)
        return found, str(of_all) if found else ""
    return "", ""


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BESIDE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise RefusalError(f"{file}: {error.strerror or error}") from error


def _sha256(image: Path) -> str:
    digest = hashlib.sha256()
    try:
        with image.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
    except OSError as error:
        raise RefusalError(f"--image: {image}: {error.strerror or error}") from error
    return digest.hexdigest()


def _signature(signed: Sequence[Path], keyring: Path) -> str:
    """Check the first signature that there is.

    Args:
        signed: the image, and what else vouches for it.
        keyring: whose signatures count.

    """
    beside = [(file.with_name(file.name + end), file) for file in signed for end in _SIGNATURES]
    signature, file = next((one for one in beside if one[0].exists()), (None, signed[0]))
    if signature is None:
        looked = ", ".join(str(one[0]) for one in beside[: len(_SIGNATURES) - 1])
        raise RefusalError(
            f"--keyring: no signature beside the image: none of {looked} or {beside[-1][0]}"
        )
    needed_programs.check(("gpgv",), "gpgv", brewed="gnupg")
    with tempfile.NamedTemporaryFile(prefix="hedgerow-keyring-") as binary:
        binary.write(_keyring(keyring))
        binary.flush()
        command = ("gpgv", "--keyring", binary.name, "--status-fd", "1", "--", signature, file)
        try:
            done = subprocess.run(  # noqa: S603  # a fixed program, without a shell
                command, capture_output=True, check=False, timeout=_GPGV_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RefusalError(f"{signature}: gpgv: {error}") from error
    said = done.stdout.decode("utf-8", "replace")
    good = re.search(r"^\[GNUPG:\] GOODSIG \S+ (.*)$", said, re.MULTILINE)
    valid = re.search(r"^\[GNUPG:\] VALIDSIG (\S+)", said, re.MULTILINE)
    if done.returncode != 0 or good is None or valid is None:
        why = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        raise RefusalError(f"{signature}: no good signature of a key in {keyring}: {why}")
    return f"{good[1]} ({valid[1]})"


def _keyring(path: Path) -> bytes:
    """In the binary form, which is all that gpgv reads (RFC 9580, section 6.2 has the other)."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_KEYRING_BYTES)
    except OSError as error:
        raise RefusalError(f"--keyring: {path}: {error.strerror or error}") from error
    if not data.lstrip().startswith(b"-----BEGIN PGP"):
        return data
    blocks = re.findall(
        rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:.+\r?\n)*?[ \t]*\r?\n(.+?)-----END",
        data,
        re.DOTALL,
    )
    try:
        bodies = [b"".join(_without_checksum(block)) for block in blocks]
        return b"".join(base64.b64decode(body, validate=True) for body in bodies)
    except binascii.Error as error:
        raise RefusalError(f"--keyring: {path}: {error}") from error


def _without_checksum(block: bytes) -> list[bytes]:
    lines = [line.strip() for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(b"=")]
