"""Notes of viewers, and addresses that gateways tell of their pages, at their exact bounds."""

from __future__ import annotations

import pytest

from cloud_ingest.dashboard.acknowledging import NoteError, checked_note
from cloud_ingest.dashboard.page_address import page_address


def test_a_note_has_at_most_500_characters_and_those_that_people_see() -> None:
    assert checked_note(f" {'ä' * 500}\n") == "ä" * 500
    assert checked_note("one\ntwo") == "one\ntwo"
    with pytest.raises(NoteError, match="501 characters are more than 500"):
        checked_note("x" * 501)
    with pytest.raises(NoteError, match="can't be shown"):
        checked_note("one\ttwo")


def test_the_address_of_a_page_has_at_most_200_characters() -> None:
    address = f"https://gw.example/{'a' * 181}"
    assert len(address) == 200
    assert page_address(address) == address
    assert page_address(f"{address}a") is None
