"""Goal: only the right password lets in, and neither time nor an error tells anything more."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from gateway.broker.access import passwords as passwords_module
from gateway.broker.access.passwords import Passwords
from gateway.broker.access.policy_file import AccessFileError

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
ALICE = CHEAP.hash("wonderland")
BOB = PasswordHasher(time_cost=2, memory_cost=128, parallelism=1).hash(b"\xff\x00builder")
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

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002
            computed.append(str(hash))
            return bool(super().verify(hash, password))

    monkeypatch.setattr(passwords_module, "PasswordHasher", Counting)
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
        ("alice:wonderland\n", 1, "the hash of 'alice' is no argon2 hash"),
        ("a:$6$salt$abcdefghijklmnop\n", 1, "the hash of 'a' is no argon2 hash"),
        (f"alice:{ALICE[:-30]}\n", 1, "the hash of 'alice' is no argon2 hash"),
        (f"alice:{ALICE}\nbob:{BOB}\nalice:{BOB}\n", 3, "'alice' has a line already"),
    ],
    ids=["no-hash", "no-user", "a-password", "another-hash", "half-a-hash", "a-user-twice"],
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
