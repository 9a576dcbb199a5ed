"""Goal: only the right password lets in, and neither time nor an error tells anything more."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.access import password_hashes
from gateway.broker.access.passwords import Passwords
from gateway.trust.policy.faults import AccessFileError

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
ALICE = CHEAP.hash("wonderland")
BOB = PasswordHasher(time_cost=2, memory_cost=128, parallelism=1).hash(b"\xff\x00builder")
NEITHER = "is neither argon2's nor mosquitto_passwd's"
FILE = f"# users\n\nalice:{ALICE}\r\nbob:{BOB}\n"


def test_the_right_password_lets_in_and_no_other() -> None:
    passwords = Passwords.parse(FILE, "users")
    assert len(passwords) == 2
    assert passwords.verify("alice", b"wonderland")
    assert passwords.verify("bob", b"\xff\x00builder")
    assert not passwords.verify("alice", b"wonderland ")
    assert not passwords.verify("alice", b"")
    assert not passwords.verify("bob", b"wonderland")
    assert not passwords.verify("ALICE", b"wonderland")


def test_an_unknown_user_is_refused_even_with_a_password_that_somebody_has() -> None:
    passwords = Passwords.parse(f"alice:{ALICE}\n", "users")
    assert not passwords.verify("mallory", b"wonderland")
    assert not passwords.verify("", b"wonderland")


def test_an_unknown_user_costs_one_computation_with_a_known_users_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[str] = []

    def counting(encoded: str, password: bytes) -> bool:
        computed.append(encoded)
        return False

    monkeypatch.setattr(password_hashes, "matches", counting)
    passwords = Passwords.parse(FILE, "users")
    for user in ("alice", "bob", "mallory", "trudy"):
        computed.clear()
        assert not passwords.verify(user, b"guess")
        assert len(computed) == 1
        assert computed[0] in (ALICE, BOB)


def test_without_users_nobody_gets_in() -> None:
    assert not Passwords.parse("# none yet\n", "users").verify("alice", b"wonderland")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("alice\n", 1, "not USER:HASH"),
        (f"# users\n:{ALICE}\n", 2, "not USER:HASH"),
        ("alice:wonderland\n", 1, f"the hash of 'alice' {NEITHER}"),
        ("a:$6$salt$abcdefghijklmnop\n", 1, f"the hash of 'a' {NEITHER}"),
        (f"a:$7$0$c2FsdA==${'A' * 86}==\n", 1, f"the hash of 'a' {NEITHER}"),
        (f"a:$7$101$c2FsdA$${'A' * 86}==\n", 1, f"the hash of 'a' {NEITHER}"),
        (f"alice:{ALICE[:-30]}\n", 1, f"the hash of 'alice' {NEITHER}"),
        (f"alice:{ALICE}\nbob:{BOB}\nalice:{BOB}\n", 3, "'alice' has a line already"),
    ],
    ids=[
        *("no-hash", "no-user", "a-password", "another-hash", "no-iterations", "no-base64"),
        *("half-a-hash", "a-user-twice"),
    ],
)
def test_a_wrong_line_is_named_and_no_secret_shown(text: str, line: int, why: str) -> None:
    with pytest.raises(AccessFileError) as caught:
        Passwords.parse(text, "users")
    assert str(caught.value) == f"users:{line}: {why}"
    assert "wonderland" not in str(caught.value)


def test_a_hash_that_cannot_be_computed_lets_nobody_in() -> None:
    broken = ALICE.replace("m=64", "m=1")
    assert not Passwords.parse(f"alice:{broken}\n", "users").verify("alice", b"wonderland")


def test_no_hash_is_shown() -> None:
    assert repr(Passwords.parse(FILE, "users")) == "Passwords(2 users)"


def pbkdf2(password: bytes, salt: bytes, iterations: int) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password, salt, iterations)
    return f"$7${iterations}${b64(salt)}${b64(digest)}"


def sha512(password: bytes, salt: bytes) -> str:
    return f"$6${b64(salt)}${b64(hashlib.sha512(password + salt).digest())}"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# HMAC fills a key with zeros (RFC 2104), so passwords that end in them are alike to PBKDF2.
SPOKEN = st.binary(max_size=40).filter(lambda password: b"\0" not in password)


@given(
    SPOKEN,
    SPOKEN,
    st.binary(min_size=1, max_size=64),
    st.none() | st.integers(1, 50),
)
def test_a_hash_of_mosquitto_lets_in_the_password_that_made_it_and_no_other(
    password: bytes, other: bytes, salt: bytes, iterations: int | None
) -> None:
    encoded = sha512(password, salt) if iterations is None else pbkdf2(password, salt, iterations)
    passwords = Passwords.parse(f"alice:{encoded}\n", "users")
    assert passwords.verify("alice", password)
    assert passwords.verify("alice", other) == (other == password)
    assert not passwords.verify("mallory", password)


@given(st.text(alphabet="$67Aa/+=1argon2id,v", max_size=120))
def test_any_text_is_a_hash_that_is_computed_or_is_refused(encoded: str) -> None:
    if password_hashes.is_known(encoded):
        assert not password_hashes.matches(encoded, b"guess")


@pytest.mark.peer("mosquitto_passwd", "mosquitto")
@pytest.mark.parametrize("options", [(), ("-I", "3000"), ("-H", "sha512")])
def test_a_file_of_mosquitto_passwd_lets_its_users_in(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "passwords"
    for user, password, create in (("alice", "wonderland", ["-c"]), ("bob", "café ☕", [])):
        command = ["mosquitto_passwd", *options, *create, "-b", str(path), user, password]
        subprocess.run(command, check=True, timeout=60)
    passwords = Passwords.parse(path.read_text(), "users")
    assert len(passwords) == 2
    assert passwords.verify("alice", b"wonderland")
    assert passwords.verify("bob", "café ☕".encode())
    assert not passwords.verify("alice", "café ☕".encode())
    assert not passwords.verify("bob", b"")
