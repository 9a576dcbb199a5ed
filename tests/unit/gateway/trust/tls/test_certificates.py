"""Goal: a certificate gives exactly the name and roles that its authority wrote into it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from authority import Authority
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.tls.certificates import identify
from gateway.trust.tls.peer_certificate import CertificateError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_the_common_name_is_the_user_and_uris_are_roles(authority: Authority) -> None:
    found = identify(authority.issue("alice", roles=["sensor", "north-2"]).der)
    assert (found.name, found.roles) == ("alice", {"sensor", "north-2"})


def test_a_certificate_without_roles_has_none(authority: Authority) -> None:
    assert identify(authority.issue("alice").der).roles == frozenset()


def test_the_certificate_itself_is_not_in_logs(authority: Authority) -> None:
    assert "der" not in repr(identify(authority.issue("alice").der))


@pytest.mark.parametrize(
    "uri",
    [
        "urn:hedgerow:role:",
        "urn:hedgerow:role:Sensor",
        "urn:hedgerow:role:a/b",
        "urn:hedgerow:role:a b",
        "urn:hedgerow:role:-a",
        "urn:hedgerow:role:sensor#x",
        "urn:hedgerow:role:sensor:x",
        "urn:hedgerow:gateway:sensor",
        "xurn:hedgerow:role:sensor",
        "https://hedgerow/role/sensor",
        "urn:hedgerow:role:" + "a" * 64,
    ],
)
def test_another_uri_is_no_role(authority: Authority, uri: str) -> None:
    assert identify(authority.issue("alice", roles=[uri]).der).roles == frozenset()


@pytest.mark.parametrize("names", [(), ("alice", "bob"), ("a\nb",), ("a\0b",), ("\u202eb",)])
def test_a_certificate_without_a_name_that_can_be_used_is_refused(
    authority: Authority, names: tuple[str, ...]
) -> None:
    with pytest.raises(CertificateError):
        identify(authority.issue(*names).der)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(der: bytes) -> None:
    with pytest.raises(CertificateError):
        identify(der)


@pytest.mark.filterwarnings("ignore:Attribute's length")
@pytest.mark.parametrize(("characters", "is_taken"), [(256, True), (257, False)])
def test_a_common_name_has_at_most_256_characters(characters: int, is_taken: bool) -> None:
    key, now = Ed25519PrivateKey.generate(), datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    one = x509.NameAttribute(NameOID.COMMON_NAME, "n" * characters, _validate=False)
    name = x509.Name([one])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.public_key(key.public_key()).not_valid_before(now)
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    der = builder.sign(key, None).public_bytes(Encoding.DER)
    if is_taken:
        assert identify(der).name == "n" * 256
        return
    with pytest.raises(CertificateError, match="common name is empty or too long"):
        identify(der)
