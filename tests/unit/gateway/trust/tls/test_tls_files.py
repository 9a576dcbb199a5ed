"""Goal: a file of certificates that can't serve is named when it is read."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

import pytest
from authority import Authority, Issued

from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles, naming


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Issued:
    return authority.issue("gw", is_server=True)


def refused(files: TlsFiles, field: str, why: str) -> None:
    with pytest.raises(TlsFileError) as caught:
        Tls(files)
    assert caught.value.field == field
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tls_is_of_version_1_2_or_newer(server: Issued) -> None:
    context = Tls(TlsFiles(server.certificate, server.key)).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


def test_a_key_of_another_certificate_is_named(authority: Authority, server: Issued) -> None:
    other = authority.issue("other", is_server=True)
    refused(TlsFiles(server.certificate, other.key), "key_file", "not the key of the certificate")


def test_an_encrypted_key_is_named_and_no_password_asked_for(authority: Authority) -> None:
    locked = authority.issue("gw", is_server=True, password=b"secret")
    refused(TlsFiles(locked.certificate, locked.key), "key_file", "encrypted")


def over(files: TlsFiles) -> dict[str, str]:
    """Return the certificates that are over by the clock, by field; all files are read still."""
    return {one.field: str(one) for one in Tls(files).over}


def test_a_certificate_that_has_ended_is_read_and_named(authority: Authority) -> None:
    old = authority.issue("gw", is_server=True, expired=True)
    told = over(TlsFiles(old.certificate, old.key))
    assert told.keys() == {"certificate_file"}
    assert told["certificate_file"].startswith(f"{old.certificate}: expired at ")


def test_what_else_is_wrong_with_files_that_are_over_is_refused_and_all_is_told(
    authority: Authority,
) -> None:
    old = authority.issue("gw", is_server=True, expired=True)
    with pytest.raises(TlsFileError, match="no private key in PEM") as caught:
        Tls(TlsFiles(old.certificate, authority.file))
    assert [one.field for one in caught.value.more] == ["certificate_file"]


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\n"])
@pytest.mark.parametrize("field", ["certificate_file", "key_file", "client_ca_file"])
def test_a_file_that_holds_no_pem_is_named(
    tmp_path: Path, authority: Authority, server: Issued, field: str, content: bytes
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    given = {
        "certificate_file": server.certificate,
        "key_file": server.key,
        "client_ca_file": authority.file,
        field: bad,
    }
    files = TlsFiles(
        given["certificate_file"],
        given["key_file"],
        ClientCertificate.REQUIRED,
        given["client_ca_file"],
    )
    refused(files, field, str(bad))


def test_a_file_that_is_missing_is_named(tmp_path: Path, server: Issued) -> None:
    refused(TlsFiles(tmp_path / "none", server.key), "certificate_file", "No such file")


class TestRevocations:
    def files(self, authority: Authority, server: Issued, crl: bytes, tmp_path: Path) -> TlsFiles:
        path = tmp_path / "crl.pem"
        path.write_bytes(crl)
        return TlsFiles(
            server.certificate,
            server.key,
            ClientCertificate.REQUIRED,
            client_ca=authority.file,
            client_crl=path,
        )

    def test_a_list_of_another_authority_is_named(
        self, authority: Authority, server: Issued, tmp_path: Path
    ) -> None:
        crl = Authority(tmp_path, "other").revoke()
        refused(self.files(authority, server, crl, tmp_path), "client_crl_file", "signed by none")

    def test_a_list_signed_by_another_authority_of_the_same_name_is_named(
        self, authority: Authority, server: Issued, tmp_path: Path
    ) -> None:
        (tmp_path / "x").mkdir()
        crl = Authority(tmp_path / "x", "authority").revoke()
        refused(self.files(authority, server, crl, tmp_path), "client_crl_file", "signed by none")

    def test_a_list_that_was_not_renewed_is_read_and_named_and_counts(
        self, authority: Authority, server: Issued, tmp_path: Path
    ) -> None:
        files = self.files(authority, server, authority.revoke(outdated=True), tmp_path)
        told = over(files)
        assert told.keys() == {"client_crl_file"}
        assert "was to be renewed until" in told["client_crl_file"]
        assert Tls(files).context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF

    @pytest.mark.parametrize("content", [b"", b"-----BEGIN X509 CRL-----\nAAAA\n"])
    def test_a_file_that_holds_no_list_is_named(
        self, authority: Authority, server: Issued, tmp_path: Path, content: bytes
    ) -> None:
        refused(self.files(authority, server, content, tmp_path), "client_crl_file", "list")

    def test_a_certificate_that_was_verified_is_checked_again(
        self, authority: Authority, server: Issued, tmp_path: Path
    ) -> None:
        alice, bob = authority.issue("alice"), authority.issue("bob")
        before = Tls(self.files(authority, server, authority.revoke(), tmp_path))
        assert before.still_accepts(alice.der, before)
        after = Tls(self.files(authority, server, authority.revoke(alice), tmp_path))
        assert not after.still_accepts(alice.der, before)
        assert after.still_accepts(bob.der, before)
        assert not after.still_accepts(authority.issue("old", expired=True).der, before)

    def test_a_certificate_of_an_authority_that_is_no_longer_trusted_is_not_accepted(
        self, authority: Authority, server: Issued, tmp_path: Path
    ) -> None:
        other = Authority(tmp_path, "other")
        both = tmp_path / "both.pem"
        both.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
        required = (server.certificate, server.key, ClientCertificate.REQUIRED)
        before = Tls(TlsFiles(*required, both))
        after = Tls(TlsFiles(*required, authority.file))
        assert after.still_accepts(authority.issue("alice").der, before)
        assert not after.still_accepts(other.issue("mallory").der, before)


def test_a_revocation_needs_no_room_on_a_disk(
    tmp_path: Path, authority: Authority, server: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = authority.issue("mallory")
    (lists := tmp_path / "lists.pem").write_bytes(authority.revoke(revoked))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there is none"))
    files = TlsFiles(
        server.certificate, server.key, ClientCertificate.REQUIRED, authority.file, lists
    )
    tls = Tls(files)
    assert tls.context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    assert tls.context.cert_store_stats()["crl"] == 1


def test_clients_show_certificates_of_authorities_alone(server: Issued) -> None:
    for kind in (ClientCertificate.OPTIONAL, ClientCertificate.REQUIRED):
        with pytest.raises(ValueError, match=f"client certificates are {kind.value}: of whom"):
            TlsFiles(server.certificate, server.key, kind)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ssl.SSLError(1, "[X] what OpenSSL says"), "what OpenSSL says"),
        (OSError(13, "Permission denied"), "Permission denied"),
        (ValueError("what is wrong"), "what is wrong"),
        (ValueError(), "ValueError"),
    ],
)
def test_an_error_of_what_is_below_names_the_file_and_the_field(error: Exception, why: str) -> None:
    with pytest.raises(TlsFileError, match=why) as named, naming("key_file", Path("/a/key.pem")):
        raise error
    assert (named.value.field, named.value.path) == ("key_file", Path("/a/key.pem"))
