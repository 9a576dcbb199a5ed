"""Log-in to a page: what is no password, who has to wait, and what a change of users ends."""

from __future__ import annotations

import asyncio
import threading

from argon2 import PasswordHasher

from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.principal import Principal
from gateway.web.log_in import Token, WebLogIn

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HERE = "127.0.0.1"
USERS = Passwords({user: CHEAP.hash(user) for user in ("ada", "bob", "u" * 256)})


def door(passwords: Passwords | None = USERS, failures: int = 1_000) -> WebLogIn:
    limits = Limits(failures_at_once=failures, failures_per_s=0.001)

    def may_enter(_policy: Policy, visitor: Principal) -> bool:
        return "bob" not in str(visitor)

    return WebLogIn(Policy(PolicyRules()), passwords, may_enter, limits)


class StuckPasswords(Passwords):
    """Passwords whose check lasts until it is let go."""

    def __init__(self) -> None:
        super().__init__({})
        self.may_go = threading.Event()

    def verify(self, user: str, password: bytes) -> bool:
        self.may_go.wait()
        return False


async def test_without_users_nobody_logs_in_and_whoever_is_here_looks() -> None:
    local = door(None)
    assert not local.asks
    assert await local.log_in("ada", b"ada", HERE) == "wrong"
    assert str(local.visitor("", 0.0)) == str(local.policy.principal("local"))
    assert door().asks
    assert door().visitor("", 0.0) is None


async def test_a_user_has_1_to_256_characters_and_a_password_1024_bytes() -> None:
    long = Passwords({"ada": CHEAP.hash("x" * 1024), "bob": CHEAP.hash("x" * 1025)})
    assert await door(long).why_unproved("ada", b"x" * 1024, HERE) == ""
    assert await door(long).why_unproved("bob", b"x" * 1025, HERE) == "wrong"
    assert await door().why_unproved("u" * 256, b"u" * 256, HERE) == ""
    for user in ("", "u" * 257):
        assert await door().log_in(user, b"u", HERE) == "wrong"


async def test_a_right_password_is_a_token_of_who_the_page_is_for() -> None:
    one = door()
    now_s = asyncio.get_running_loop().time()
    token = await one.log_in("ada", b"ada", HERE)
    assert isinstance(token, Token)
    assert "ada" in str(one.visitor(token.text, now_s))
    assert await one.log_in("bob", b"bob", HERE) == "forbidden"
    assert await one.log_in("ada", b"bob", HERE) == "wrong"
    one.log_out(token.text)
    assert one.visitor(token.text, now_s) is None


async def test_an_address_that_fails_too_often_has_to_wait_and_no_other_does() -> None:
    one = door(failures=3)
    assert [await one.log_in("ada", b"x", HERE) for _ in range(2)] == ["wrong"] * 2
    one.failed(HERE)  # a log-in that says nothing counts as well
    assert await one.log_in("ada", b"ada", HERE) == "later"
    assert isinstance(await one.log_in("ada", b"ada", "192.0.2.1"), Token)


async def test_32_passwords_wait_to_be_checked_and_the_next_one_is_asked_to_come_later() -> None:
    stuck = StuckPasswords()
    one = door(stuck)
    try:
        begun = [
            asyncio.create_task(one.why_unproved(f"user-{number}", b"x", HERE))
            for number in range(33)
        ]
        await asyncio.sleep(0)
        assert await one.why_unproved("ada", b"x", HERE) == "later"
    finally:
        stuck.may_go.set()
    assert await asyncio.gather(*begun) == ["wrong"] * 33
    assert await one.why_unproved("ada", b"x", HERE) == "wrong"


async def test_whose_password_changes_or_goes_is_logged_out_and_others_stay() -> None:
    one = door()
    now_s = asyncio.get_running_loop().time()
    tokens = [await one.log_in(user, user.encode(), HERE) for user in ("ada", "u" * 256)]
    assert isinstance(tokens[0], Token)
    assert isinstance(tokens[1], Token)
    one.replace(one.policy, USERS)
    assert all(isinstance(one, Token) for one in tokens)
    assert one.visitor(tokens[0].text, now_s) is not None
    one.replace(one.policy, Passwords({"u" * 256: CHEAP.hash("other"), "bob": "x"}))
    assert [one.visitor(token.text, now_s) for token in tokens if isinstance(token, Token)] == [
        *(None, None)
    ]
