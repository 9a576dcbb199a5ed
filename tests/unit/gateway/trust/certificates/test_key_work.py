"""Goal: a key or a store that would keep a processor busy is refused before it is opened."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as st
from key_stores import CERTIFICATE, KEY, PASSWORD, patched, store

from gateway.trust.certificates import key_work, pkcs12_files, private_keys, unpacking
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.key_work import KeyWorkError
from gateway.trust.certificates.pkcs12_files import KDF_ROUNDS, KeystoreContent, Pkcs12Error

HONEST, BOMB = store(1 << 16), patched(store(1 << 16), 1 << 16, 0x7FFFFF)


@pytest.mark.parametrize("pbes", list(pkcs12.PBES))
def test_stores_that_other_programs_write_are_opened(pbes: pkcs12.PBES) -> None:
    data = store(2_048, pbes)
    key_work.check(data)
    assert pkcs12_files.unpack(data, PASSWORD).certificate == CERTIFICATE
    key_work.check(pkcs12_files.pack(KeystoreContent(KEY, CERTIFICATE, []), PASSWORD))
    key_work.check(pkcs12_files.pack(KeystoreContent(None, None, [CERTIFICATE]), PASSWORD))
    assert KDF_ROUNDS * 3 < key_work.MOST_ROUNDS


@pytest.mark.parametrize("pbes", list(pkcs12.PBES))
def test_a_store_with_many_rounds_is_refused_at_once(pbes: pkcs12.PBES) -> None:
    bomb = patched(store(1 << 16, pbes), 1 << 16, 0x7FFFFF)
    began_s = time.process_time()
    with pytest.raises(Pkcs12Error, match="its password would be hashed"):
        pkcs12_files.unpack(bomb, PASSWORD)
    assert time.process_time() - began_s < 1


def test_many_small_counts_are_one_great_one() -> None:
    each = bytes.fromhex("300a0404000000000202 7fff".replace(" ", ""))
    body = each * 100
    data = b"\x30\x82" + len(body).to_bytes(2) + body
    with pytest.raises(KeyWorkError, match="3276700 times"):
        key_work.check(data)


def test_scrypt_counts_its_memory_and_its_lanes() -> None:
    with pytest.raises(KeyWorkError, match="134217728 times"):
        key_work.check(bytes.fromhex("3012 0404 00000000 0204 01000000 020108 020101"))
    key_work.check(bytes.fromhex("3010 0404 00000000 0202 0400 020108 020101"))


@pytest.mark.parametrize(
    "data",
    [
        "300c 0404 00000000 0204 7fffffff",
        # of indefinite length, as some programs write it (X.690, 8.1.3.6)
        "3080 0404 00000000 0204 7fffffff 0000",
        # within a string that is data, as a store has it
        "040e 300c 0404 00000000 0204 7fffffff",
        # with something behind it, which some readers leave alone
        "0410 300c 0404 00000000 0204 7fffffff ffff",
        # with the length of its key, of which PBKDF2 makes 32 bytes a time
        "3010 0404 00000000 0202 7fff 0204 7fffffff",
    ],
)
def test_other_ways_to_write_it_hide_nothing(data: str) -> None:
    with pytest.raises(KeyWorkError, match=r"would be hashed|longer than"):
        key_work.check(bytes.fromhex(data))


def test_a_count_in_a_string_in_pieces_is_found() -> None:
    inner = bytes.fromhex("300a040400000000 0202 7fff".replace(" ", "")) * 100
    inner = b"\x30\x82" + len(inner).to_bytes(2) + inner
    pieces = b"".join(b"\x04\x10" + inner[i : i + 16] for i in range(0, len(inner) // 16 * 16, 16))
    rest = inner[len(inner) // 16 * 16 :]
    pieces += b"\x04" + bytes([len(rest)]) + rest
    with pytest.raises(KeyWorkError, match="3276700 times"):
        key_work.check(b"\x24\x80" + pieces + b"\0\0")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x30\x80" * 100, "more parts"),
        (b"\x05\x00" * (key_work.MOST_ELEMENTS + 1), "more parts"),
        (bytes(key_work.MOST_BYTES + 1), "over 262144"),
        (b"\x30\x84\xff\xff\xff\xff", "longer than what holds it"),
        (b"\x30", "ends within"),
        (b"\x3f\xff\xff", "ends within"),
        (b"\x30\x80\x05\x00", "ends within"),
    ],
)
def test_what_is_no_store_is_refused_without_work(data: bytes, why: str) -> None:
    with pytest.raises(KeyWorkError, match=why):
        key_work.check(data)


@given(st.binary(max_size=400))
def test_any_bytes_are_looked_through_or_refused(data: bytes) -> None:
    try:
        key_work.check(data)
    except KeyWorkError:
        return


@given(st.data())
def test_a_damaged_store_is_opened_or_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(HONEST) - 1))
    damaged = bytearray(HONEST)
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        key_work.check(bytes(damaged))
    except KeyWorkError:
        return


def test_an_encrypted_key_in_pem_is_bounded_too() -> None:
    pem = private_keys.as_pem(KEY, PASSWORD)
    key_work.check_pem(pem)
    assert private_keys.load(pem, PASSWORD)
    body = base64.encodebytes(bytes.fromhex("3010 300c 0404 00000000 0204 7fffffff 0500"))
    name = b"ENCRYPTED PRIVATE KEY-----\n"
    bomb = b"-----BEGIN " + name + body + b"-----END " + name
    with pytest.raises(private_keys.PrivateKeyError, match="hashed 2147483647 times"):
        private_keys.load(bomb, PASSWORD)


# -- in a process of its own ---------------------------------------------------------------------


def test_a_store_is_opened_in_another_process() -> None:
    found = unpacking.unpacked(HONEST, PASSWORD)
    assert found.certificate == CERTIFICATE
    assert found.key is not None
    assert private_keys.same_key(found.key.public_key(), KEY.public_key())
    with pytest.raises(Pkcs12Error, match="password is another one"):
        unpacking.unpacked(HONEST, b"open barley")
    with pytest.raises(Pkcs12Error, match="hashed"):
        unpacking.unpacked(BOMB, PASSWORD)
    with pytest.raises(Pkcs12Error, match="over 262144"):
        unpacking.unpacked(bytes(key_work.MOST_BYTES + 1), PASSWORD)


def der(tag: int, *parts: bytes) -> bytes:
    """An element of DER (X.690, 8.1)."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def oid(dotted: str) -> bytes:
    first, second, *more = map(int, dotted.split("."))
    found = bytes([first * 40 + second])
    for number in more:
        seven = [number & 0x7F]
        while number := number >> 7:
            seven.insert(0, 0x80 | number & 0x7F)
        found += bytes(seven)
    return der(6, found)


def pbes2(rounds: int) -> bytes:
    """Return the identifier of an encryption with AES under a password (RFC 8018, appendix A.4)."""
    prf = der(0x30, oid("1.2.840.113549.2.9"), der(5))
    count = der(2, rounds.to_bytes(5).lstrip(b"\0").rjust(1, b"\0"))
    kdf = der(0x30, oid("1.2.840.113549.1.5.12"), der(0x30, der(4, bytes(8)), count, prf))
    cipher = der(0x30, oid("2.16.840.1.101.3.4.1.42"), der(4, bytes(16)))
    return der(0x30, oid("1.2.840.113549.1.5.13"), der(0x30, kdf, cipher))


def hidden_bomb(rounds: int) -> bytes:
    """A store with a key under many rounds, which an encryption with few hides (RFC 7292)."""
    data, encrypted = oid("1.2.840.113549.1.7.1"), oid("1.2.840.113549.1.7.6")
    key = der(0x30, pbes2(rounds), der(4, bytes(160)))
    bag = der(0x30, oid("1.2.840.113549.1.12.10.1.2"), der(0xA0, key))
    plain = der(0x30, bag)
    plain += bytes([16 - len(plain) % 16]) * (16 - len(plain) % 16)
    secret = hashlib.pbkdf2_hmac("sha256", PASSWORD, bytes(8), 100, 32)
    cipher = Cipher(algorithms.AES(secret), modes.CBC(bytes(16))).encryptor()
    hidden = der(0x80, cipher.update(plain) + cipher.finalize())
    content = der(0x30, der(2, b"\0"), der(0x30, data, pbes2(100), hidden))
    safe = der(0x30, der(0x30, encrypted, der(0xA0, content)))
    # The MAC over it, by appendix B: one round of SHA-1 over id, salt and password.
    words = PASSWORD.decode().encode("utf-16-be") + b"\0\0"
    filled = (words * 64)[: -(-len(words) // 64) * 64]
    mac_key = hashlib.sha1(b"\3" * 64 + bytes(64) + filled).digest()
    digest = hmac.digest(mac_key, safe, "sha1")
    info = der(0x30, der(0x30, oid("1.3.14.3.2.26"), der(5)), der(4, digest))
    mac = der(0x30, info, der(4, bytes(8)), der(2, b"\1"))
    return der(0x30, der(2, b"\3"), der(0x30, data, der(0xA0, der(4, safe))), mac)


@pytest.mark.slow
def test_what_one_password_hides_behind_another_is_bounded_by_the_kernel() -> None:
    few, many = hidden_bomb(1_000), hidden_bomb(0x7FFFFFFF)
    key_work.check(many)  # which can't see it
    with pytest.raises(Pkcs12Error, match="no PKCS#12 that can be read"):
        unpacking.unpacked(few, PASSWORD)  # opened, and no key in it
    began_s = time.monotonic()
    with pytest.raises(Pkcs12Error, match=r"takes more than 2 s of a processor|not opened within"):
        unpacking.unpacked(many, PASSWORD, cpu_s=2)
    assert time.monotonic() - began_s < 2 * unpacking.PATIENCE_S


def test_pem_is_taken_as_well() -> None:
    certificate, other = CERTIFICATE.public_bytes(Encoding.PEM), forms.authority(KEY, 3)
    key = private_keys.as_pem(KEY)
    found = unpacking.opened(key + certificate, None)
    assert found.certificate == CERTIFICATE
    assert unpacking.opened(certificate, None).authorities == [CERTIFICATE]
    assert unpacking.opened(other.public_bytes(Encoding.PEM) + key, None).certificate == other
    stranger = private_keys.as_pem(private_keys.make("ed25519"))
    for data, why in (
        (stranger + certificate, "none of its certificates is of its key"),
        (key + stranger, "2 private keys"),
        (private_keys.as_pem(KEY, PASSWORD), "there is no password"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "can't be read"),
    ):
        with pytest.raises(Pkcs12Error, match=why):
            unpacking.opened(data, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("2480 2404 0402 3000 0000", None),  # pieces within pieces
        ("2404 0402 3000", None),
        ("2480 0500 0000", "a string in pieces that are none"),
        ("2402 0500", "a string in pieces that are none"),
        ("2480 0400", "it ends within an element"),
        ("2480 2480 0400 0000", "it ends within an element"),
    ],
)
def test_a_string_in_pieces_is_of_strings_alone_and_ends(data: str, why: str | None) -> None:
    if why is None:
        key_work.check(bytes.fromhex(data))
        return
    with pytest.raises(key_work.NoDerError, match=why):
        key_work.check(bytes.fromhex(data))


def test_a_count_in_pieces_within_pieces_is_found() -> None:
    counted = bytes.fromhex("3009 0403 000000 0202 7fff") * 100
    inner = b"\x30\x82" + len(counted).to_bytes(2) + counted
    part = b"\x04\x82" + len(inner).to_bytes(2) + inner
    within = b"\x24\x80" + part + b"\0\0"
    with pytest.raises(KeyWorkError, match="3276700 times"):
        key_work.check(b"\x24\x80" + within + b"\0\0")


def test_a_file_of_keys_is_small_and_what_is_no_base64_is_left_to_who_opens_it() -> None:
    with pytest.raises(KeyWorkError, match="262145 bytes, over 262144"):
        key_work.check_pem(bytes(key_work.MOST_BYTES + 1))
    key_work.check_pem(bytes(key_work.MOST_BYTES))
    head, end = b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"-----END ENCRYPTED PRIVATE KEY-----"
    key_work.check_pem(head + b"\n!!!!\n" + end)
    with pytest.raises(private_keys.PrivateKeyError, match="the password does not open the key"):
        private_keys.load(head + b"\n!!!!\n" + end, PASSWORD)


def test_a_key_of_another_kind_is_none_to_issue_for() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(private_keys.PrivateKeyError, match="neither Ed25519 nor P-256"):
        private_keys.load(pem)
    now = CERTIFICATE.not_valid_before_utc
    builder = x509.CertificateBuilder().subject_name(CERTIFICATE.subject).serial_number(1)
    builder = builder.issuer_name(CERTIFICATE.subject).public_key(other.public_key())
    own = builder.not_valid_before(now).not_valid_after(CERTIFICATE.not_valid_after_utc)
    signed = own.sign(other, hashes.SHA256())
    data = pkcs12.serialize_key_and_certificates(b"x", other, signed, None, NoEncryption())
    with pytest.raises(Pkcs12Error, match="neither Ed25519 nor P-256"):
        pkcs12_files.unpack(data, None)
    assert pkcs12_files.unpack_any(data, None).certificate == signed
    bare = pkcs12.serialize_key_and_certificates(b"x", KEY, None, None, NoEncryption())
    with pytest.raises(Pkcs12Error, match="a key without a certificate"):
        pkcs12_files.unpack_any(bare, None)


def test_a_file_that_is_not_opened_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "PATIENCE_S", 0.001)
    with pytest.raises(Pkcs12Error, match=r"it is not opened within 0\.001 s"):
        unpacking.unpacked(HONEST, PASSWORD)
