"""Sessions of browsers: how long one lasts, how many there are, and who is logged out first."""

from __future__ import annotations

from itertools import count

from gateway.web.web_sessions import WebSessions

HOUR_S = 3600.0


def sessions() -> WebSessions:
    numbers = count(1)
    return WebSessions(lambda: f"token-{next(numbers)}")


def test_a_session_lasts_8_hours_unused_and_24_in_all() -> None:
    one = sessions()
    token = one.begin("ada", 0.0)
    assert token == "token-1"
    assert one.user(token, 8 * HOUR_S) == "ada"
    assert one.user(token, 16 * HOUR_S) == "ada"
    assert one.user(token, 24 * HOUR_S) == "ada"
    assert len(one) == 1
    assert one.user(token, 24 * HOUR_S + 0.5) is None
    assert len(one) == 0
    token = one.begin("ada", 0.0)
    assert one.user(token, 8 * HOUR_S + 0.5) is None
    assert one.user(token, 0.0) is None  # it does not come back


def test_what_is_over_is_forgotten_at_the_next_log_in() -> None:
    one = sessions()
    for number in range(3):
        one.begin(f"user-{number}", 0.0)
    one.begin("ada", 8 * HOUR_S)
    assert len(one) == 4
    one.begin("bob", 8 * HOUR_S + 0.5)
    assert len(one) == 2


def test_a_user_has_8_sessions_and_the_one_that_was_longest_unused_ends() -> None:
    one = sessions()
    tokens = [one.begin("ada", float(number)) for number in range(8)]
    other = one.begin("bob", 0.0)
    assert [one.user(token, 10.0) for token in tokens[:1]] == ["ada"]
    tokens.append(one.begin("ada", 11.0))
    assert [one.user(token, 12.0) for token in tokens] == ["ada", None, *["ada"] * 7]
    assert one.user(other, 12.0) == "bob"
    assert len(one) == 9


def test_all_have_512_sessions_and_the_one_that_was_longest_unused_ends() -> None:
    one = sessions()
    tokens = [one.begin(f"user-{number}", float(number)) for number in range(512)]
    assert len(one) == 512
    assert one.user(tokens[0], 600.0) == "user-0"
    tokens.append(one.begin("ada", 601.0))
    assert len(one) == 512
    assert one.user(tokens[1], 602.0) is None
    assert [one.user(token, 602.0) for token in (tokens[0], tokens[2], tokens[-1])] == [
        *("user-0", "user-2", "ada")
    ]


def test_a_token_has_1_to_128_characters() -> None:
    one = WebSessions(lambda: "x" * 128)
    assert one.user(one.begin("ada", 0.0), 1.0) == "ada"
    long = WebSessions(lambda: "x" * 129)
    assert long.user(long.begin("ada", 0.0), 1.0) is None
    assert one.user("", 1.0) is None
    assert one.user("\ud800", 1.0) is None


def test_who_logs_out_or_is_put_out_is_nobody_and_others_stay() -> None:
    one = sessions()
    first, second, other = one.begin("ada", 0.0), one.begin("ada", 0.0), one.begin("bob", 0.0)
    one.end(first)
    one.end("none")
    assert [one.user(token, 1.0) for token in (first, second, other)] == [None, "ada", "bob"]
    one.end_of(lambda user: user == "ada")
    assert [one.user(token, 1.0) for token in (second, other)] == [None, "bob"]
