"""A link takes on the alert that it was made for, for some days, and only the gateway makes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.ack_link import LIFE_S, PATH, AckLinkError, AckLinks

URL = "https://gw-a.example.org:9641"
LINKS = AckLinks(b"k" * 32, URL)
NAME, AT_US = "hot:gw-a:1795835560000000", 1_795_835_560_000_000


def token(links: AckLinks = LINKS) -> str:
    return links.link(NAME, AT_US).removeprefix(URL + PATH)


def test_a_link_is_of_its_alert_and_of_no_other() -> None:
    mark = LINKS.mark(token(), AT_US)
    assert AckLinks.is_of(mark, NAME)
    assert not AckLinks.is_of(mark, f"{NAME}1")
    assert NAME not in LINKS.link(NAME, AT_US), "who sees the link does not see what is wrong"
    assert LINKS.link(NAME, AT_US) == LINKS.link(NAME, AT_US), "a mail that comes again is the same"


def test_a_link_holds_for_its_time() -> None:
    assert LINKS.mark(token(), AT_US + (LIFE_S - 1) * 1_000_000)
    with pytest.raises(AckLinkError, match="too old"):
        LINKS.mark(token(), AT_US + LIFE_S * 1_000_000)


def test_a_link_of_another_gateway_or_of_before_its_key_was_lost_is_none() -> None:
    with pytest.raises(AckLinkError, match="none that the gateway has made"):
        LINKS.mark(token(AckLinks(b"x" * 32, URL)), AT_US)


@given(st.integers(0, 45), st.characters())
def test_a_link_that_was_changed_is_none(at: int, char: str) -> None:
    changed = token()[:at] + char + token()[at + 1 :]
    # The last character has two bits that stand for nothing.
    if changed != token() and not (at == 45 and char.isascii()):
        with pytest.raises(AckLinkError):
            LINKS.mark(changed, AT_US)


@given(st.text(max_size=200))
def test_whatever_is_asked_for_is_no_link(text: str) -> None:
    with pytest.raises(AckLinkError):
        LINKS.mark(text, AT_US)
