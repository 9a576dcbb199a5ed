"""Opens a stranger's key store in a process of its own, whose time and memory are bounded.

    python -m gateway.trust.certificates.unpacking MEMORY_BYTES CPU_S < REQUEST > RESULT

What a file shows of the work that it makes is refused before (`key_work`); what it hides under its
password is met here. Both are JSON: `unpacked` writes the one and reads the other.
"""

from __future__ import annotations

import base64
import contextlib
import json
import resource
import subprocess
import sys
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.base.printable import printable
from gateway.trust.certificates import key_work, pkcs12_files, private_keys
from gateway.trust.certificates.pkcs12_files import KeystoreContent, Pkcs12Error
from gateway.trust.certificates.private_keys import PrivateKeyError
from gateway.trust.certificates.signature_keys import PrivateKey

CPU_S: Final = 10
MEMORY_BYTES: Final = 512 << 20
PATIENCE_S: Final = 60.0
"""A busy machine gives a process less than all of its time."""
_OWN_NAME: Final = "gateway.trust.certificates.unpacking"
_MOST_RESULT: Final = 4 << 20
_MOST_WHY: Final = 200


def unpacked(
    data: bytes, password: bytes | None, memory_bytes: int = MEMORY_BYTES, cpu_s: int = CPU_S
) -> KeystoreContent[PrivateKey]:
    """Return what a file holds: PKCS#12, or PEM with a key, certificates, or both.

    Args:
        data: of the file.
        password: that opens it; None for none.
        memory_bytes: that the process which opens it may have.
        cpu_s: of a processor, which it may take.

    Raises:
        Pkcs12Error: it can't be opened, or not with bounded work.

    """
    if len(data) > key_work.MOST_BYTES:
        raise Pkcs12Error(f"{len(data)} bytes, over {key_work.MOST_BYTES}")
    request = {"data": _text(data), "password": None if password is None else _text(password)}
    try:
        done = subprocess.run(  # noqa: S603  # this very module, and two numbers
            [sys.executable, "-m", _OWN_NAME, str(memory_bytes), str(cpu_s)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Pkcs12Error(f"it is not opened within {PATIENCE_S:g} s") from error
    try:
        told: dict[str, Any] = json.loads(done.stdout[:_MOST_RESULT])
    except ValueError as error:
        raise Pkcs12Error(_why_ended(done, memory_bytes, cpu_s)) from error
    if why := told.get("why"):
        raise Pkcs12Error(why)
    key = None if told["key"] is None else private_keys.load(told["key"].encode())[0]
    own = None if told["own"] is None else x509.load_pem_x509_certificate(told["own"].encode())
    others = told["others"].encode()
    return KeystoreContent(key, own, x509.load_pem_x509_certificates(others) if others else [])


def _why_ended(done: subprocess.CompletedProcess[bytes], memory_bytes: int, cpu_s: int) -> str:
    """Say why the process has told nothing."""
    lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
    if done.returncode < 0 or lines[-1].startswith("MemoryError"):
        limits = f"{cpu_s} s of a processor and {memory_bytes >> 20} MiB"
        return f"to open it takes more than {limits}"
    why = printable(lines[-1][-_MOST_WHY:])
    return f"the process that opens it ended with {done.returncode}: {why}"


def opened(data: bytes, password: bytes | None) -> KeystoreContent[PrivateKey]:
    """Return what a file holds, in this process.

    Args:
        data: of the file.
        password: that opens it; None for none.

    Raises:
        Pkcs12Error: it can't be opened, or what a certificate in it says can't be read.

    """
    is_pem = b"-----BEGIN " in data
    content = _in_pem(data, password) if is_pem else pkcs12_files.unpack(data, password)
    own = [] if content.certificate is None else [content.certificate]
    for one in (*own, *content.authorities):
        try:
            list(one.extensions)
        except (ValueError, x509.DuplicateExtension) as error:
            name = printable(one.subject.rfc4514_string()[:_MOST_WHY])
            raise Pkcs12Error(
                f"the extensions of {name or 'a certificate'} can't be read"
            ) from error
    return content


def _in_pem(data: bytes, password: bytes | None) -> KeystoreContent[PrivateKey]:
    key: PrivateKey | None = None
    try:
        if b"PRIVATE KEY-----" in data:
            key, *more = private_keys.load(data, password)
            if more:
                raise Pkcs12Error(f"{1 + len(more)} private keys in PEM, and one is imported")
        found = x509.load_pem_x509_certificates(data) if b"CERTIFICATE-----" in data else []
    except PrivateKeyError as error:
        raise Pkcs12Error(str(error)) from error
    except ValueError as error:
        if isinstance(error, Pkcs12Error):
            raise
        raise Pkcs12Error("a certificate in PEM that can't be read") from error
    if key is None:
        return KeystoreContent(None, None, found)
    own = [one for one in found if _is_of(key, one)]
    if found and not own:
        raise Pkcs12Error("none of its certificates is of its key")
    others = [one for one in found if one not in own[:1]]
    return KeystoreContent(key, own[0] if own else None, others)


def _is_of(key: PrivateKey, certificate: x509.Certificate) -> bool:
    public = certificate.public_key()
    own = key.public_key()
    return isinstance(public, type(own)) and private_keys.same_key(own, public)


def main(memory_bytes: int, cpu_s: int) -> int:
    """Open the file of the request, and tell what it holds.

    Args:
        memory_bytes: that this process may have.
        cpu_s: of a processor, which it may take.

    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    with contextlib.suppress(ValueError, OSError):  # it may have less already
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.load(sys.stdin)
    password = request["password"]
    try:
        content = opened(_bytes(request["data"]), None if password is None else _bytes(password))
    except Pkcs12Error as error:
        told: dict[str, Any] = {"why": str(error)}
    else:
        told = {
            "key": None if content.key is None else private_keys.as_pem(content.key).decode(),
            "own": None if content.certificate is None else _pem(content.certificate),
            "others": "".join(map(_pem, content.authorities)),
        }
    json.dump(told, sys.stdout)
    return 0


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


if __name__ == "__main__":
    sys.exit(main(memory_bytes=int(sys.argv[1]), cpu_s=int(sys.argv[2])))
