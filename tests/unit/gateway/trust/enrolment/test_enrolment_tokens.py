"""Goal: a token is good once, for one name and for a while, and nobody finds out what it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.trust.certificates.authority_folder import AuthorityError
from gateway.trust.certificates.token_book import TokenBook, TokenError, TokenGrant
from gateway.trust.enrolment.tokens import EnrolmentToken

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
HOSTS = st.sampled_from(["10.0.0.1", "[fd00::3]", "ca.example", "localhost"])
KEY, OTHER = b"k" * 32, b"o" * 32
GRANT = TokenGrant("gw-a", ("10.0.0.1",), ("gateway",), 90, 1_000.0, "")


@given(
    NAMES,
    HOSTS,
    st.integers(1, 65_535),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16),
)
def test_a_token_is_read_as_it_was_written(
    name: str, host: str, port: int, fingerprint: bytes, secret: bytes
) -> None:
    token = EnrolmentToken(name, f"{host}:{port}", fingerprint, secret)
    assert EnrolmentToken.parse(f" {token.as_text()}\n") == token


WHATEVER_IT_WAS = {
    "no token: it begins with hedgerow-enrol:// and is one line",
    "no token, or a part of one: it begins with hedgerow-enrol://",
}


@given(st.text())
def test_whatever_is_no_token_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(TokenError) as refused:
        EnrolmentToken.parse(f"hedgerow-enrol://{text}")
    assert str(refused.value) in WHATEVER_IT_WAS


@pytest.mark.parametrize("cut", [1, 10, 30, 60])
def test_a_token_that_was_not_copied_whole_is_refused(cut: int) -> None:
    text = EnrolmentToken("gw-a", "10.0.0.1:8890", b"f" * 32, b"s" * 16).as_text()
    with pytest.raises(TokenError):
        EnrolmentToken.parse(text[:-cut])


def test_a_token_shows_no_secret_in_a_log() -> None:
    token = EnrolmentToken("gw-a", "10.0.0.1:8890", b"f" * 32, b"s" * 16)
    assert repr(token) == "EnrolmentToken('gw-a', '10.0.0.1:8890')"


@pytest.fixture
def book(tmp_path: Path) -> TokenBook:
    return TokenBook(tmp_path)


def test_it_is_good_for_one_key_alone(book: TokenBook) -> None:
    secret = book.make(GRANT, 0.0)
    grant = book.spend("gw-a", secret, KEY, 1.0)
    assert (grant.name, grant.addresses, grant.roles) == ("gw-a", ("10.0.0.1",), ("gateway",))
    assert book.spend("gw-a", secret, KEY, 2.0) == grant  # whose answer was not heard
    with pytest.raises(TokenError, match="has been used"):
        book.spend("gw-a", secret, OTHER, 2.0)


def test_it_is_good_for_its_name_alone(book: TokenBook) -> None:
    secret = book.make(GRANT, 0.0)
    with pytest.raises(TokenError, match="no token of that name"):
        book.spend("gw-b", secret, KEY, 1.0)
    with pytest.raises(TokenError, match="no token of that name"):
        book.spend("gw-a", bytes(16), KEY, 1.0)
    book.spend("gw-a", secret, KEY, 1.0)


def test_it_ends(book: TokenBook) -> None:
    secret = book.make(GRANT, 0.0)
    with pytest.raises(TokenError, match="it has ended"):
        book.spend("gw-a", secret, KEY, 1_000.0)


def test_a_new_one_takes_the_place_of_the_one_before(book: TokenBook) -> None:
    before = book.make(GRANT, 0.0)
    after = book.make(GRANT, 0.0)
    with pytest.raises(TokenError):
        book.spend("gw-a", before, KEY, 1.0)
    book.spend("gw-a", after, KEY, 1.0)


def test_it_can_be_taken_back(book: TokenBook) -> None:
    secret = book.make(GRANT, 0.0)
    assert book.take_back("gw-a", 1.0)
    assert not book.take_back("gw-a", 1.0)
    with pytest.raises(TokenError):
        book.spend("gw-a", secret, KEY, 1.0)


def test_the_book_does_not_hold_it(book: TokenBook, tmp_path: Path) -> None:
    secret = book.make(GRANT, 0.0)
    text = (tmp_path / "tokens.json").read_text()
    assert secret.hex() not in text
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


def test_those_that_ended_are_forgotten(book: TokenBook, tmp_path: Path) -> None:
    for number in range(5):
        book.make(TokenGrant(f"gw-{number}", (), ("gateway",), 90, 10.0, ""), 0.0)
    book.make(GRANT, 20.0)
    assert (tmp_path / "tokens.json").read_text().count("hashed") == 1


def test_a_book_that_is_none_is_named(book: TokenBook, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("nonsense")
    with pytest.raises(AuthorityError, match="no book of tokens"):
        book.spend("gw-a", bytes(16), KEY, 1.0)
