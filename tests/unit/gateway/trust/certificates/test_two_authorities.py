"""Goal: an authority whose key is lost is replaced while what it has issued stays valid."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gateway.trust.certificates import founding


def _shake_hands(folder: Path, name: str) -> None:
    """A client with a certificate comes to a server that trusts both authorities."""
    trusted = folder / "ca.pem"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "new" / "gw-a.pem", folder / "new" / "gw-a.key.pem")
    server.load_verify_locations(trusted)
    server.load_verify_locations(folder / "revoked.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    client = ssl.create_default_context(cafile=str(trusted))
    client.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="gw-a"),
    ]
    waiting = list(ends)
    while waiting:
        for end in tuple(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("old", "new"):
        authority = founding.found(tmp_path / name)
        authority.issue("gw-a")
        authority.issue("gw-b")
        authority.issue("gone")
        authority.revoke(["gone"])
    for name in ("ca.pem", "revoked.pem"):
        texts = [(tmp_path / each / name).read_text() for each in ("old", "new")]
        (tmp_path / name).write_text("".join(texts))
    return tmp_path


@pytest.mark.parametrize("name", ["old/gw-b", "new/gw-b"])
def test_certificates_of_both_are_accepted(folder: Path, name: str) -> None:
    _shake_hands(folder, name)


@pytest.mark.parametrize("name", ["old/gone", "new/gone"])
def test_what_either_has_revoked_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        _shake_hands(folder, name)
