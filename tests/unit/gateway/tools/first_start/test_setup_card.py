"""Goal: the file of the boot partition says its code, and a wrong one is refused without it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.first_start import setup_card
from gateway.tools.first_start.setup_card import SetupCard, SetupCardError


@given(st.integers())
def test_a_card_says_what_was_written(seed: int) -> None:
    code = setup_card.new_code(random.Random(seed).randrange)
    card = SetupCard(code, "CERTIFICATE\n", "KEY\n")
    assert SetupCard.parse(card.as_text()) == card
    assert setup_card.normal(setup_card.shown(code).lower()) == code


@pytest.mark.parametrize("text", ["", "# nothing\n", 'code = ""\n'])
def test_a_file_without_a_code_has_the_gateway_make_one(text: str) -> None:
    assert SetupCard.parse(text) == SetupCard()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('code = "short"', "code: is not 12"),
        ('code = "secret+secret+secret"', "code: is not 12"),
        ("code = 123456789012", "code: is no text"),
        ("0123-4567-89AB", "is not TOML"),
        ('password = "x"', "'password'"),
        ('certificate = "x"', "one of them alone"),
        ("#" * 20_000, "more than"),
    ],
)
def test_what_the_file_can_not_say_is_named_and_the_code_is_not(text: str, why: str) -> None:
    with pytest.raises(SetupCardError, match=why) as error:
        SetupCard.parse(text)
    assert "secret" not in str(error.value)
    assert "0123" not in str(error.value)


@given(st.text(max_size=200))
def test_whatever_is_typed_is_compared(typed: str) -> None:
    assert len(setup_card.normal(typed)) <= 2 * setup_card.TYPED_CHARACTERS_MAX


def test_what_is_too_long_to_be_a_code_is_none() -> None:
    assert setup_card.normal("o" * 64) == "0" * 64
    assert setup_card.normal("o" * 65) == ""
    assert setup_card.shown("0123456789AB") == "0123-4567-89AB"
