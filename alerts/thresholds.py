"""Thresholds of gateways and fleets: where something is wrong, and where it is well again."""

from __future__ import annotations

from typing import Final

HOT_CEL: Final = 80.0
"""A Pi slows down from here on."""
COOL_CEL: Final = 75.0
LITTLE_FREE: Final = 0.05
"""Of a disk, as a share of it."""
ENOUGH_FREE: Final = 0.08
WEARING_BYTES_PER_DAY: Final = 20e9
LASTING_BYTES_PER_DAY: Final = 15e9
WEAR_WINDOW_S: Final = 3_600.0
WORN_SHARE: Final = 0.9
"""Of a card's life time, as its kernel tells it in tenths."""
ENDING_DAYS: Final = 30
"""A certificate or revocation list that ends within these is to be renewed."""
