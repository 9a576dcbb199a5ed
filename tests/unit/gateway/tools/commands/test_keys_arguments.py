"""`hedgerow keys` takes as many days and hours as a certificate and a token may be good for."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from gateway.tools.commands import keys


@pytest.mark.parametrize(
    ("read", "most", "unit"), [(keys.days, 36_500, "days"), (keys.hours, 720, "hours")]
)
def test_one_to_the_most_is_taken_and_nothing_else(
    read: Callable[[str], int], most: int, unit: str
) -> None:
    assert [read("1"), read(str(most))] == [1, most]
    for text in ("0", str(most + 1), "-1", "1.5", "", "x", "\u00b2"):
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            read(text)
        assert str(refused.value) == f"{text!r} is not 1 to {most} {unit}"
