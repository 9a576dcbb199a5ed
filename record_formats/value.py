"""The value of a reading, and what it is good for: whoever reads one needs no form of records."""

from __future__ import annotations

from typing import Final, Literal

Value = float | str | bool | bytes
Quality = Literal["good", "uncertain", "bad"]

GOOD: Final = "good"
"""The value is what was measured."""
UNCERTAIN: Final = "uncertain"
"""The value may be used with care: out of the sensor's range, an old one, a replacement."""
BAD: Final = "bad"
"""The value must not be used, or there is none, for the sensor could not be read."""
MAX_TAGS: Final = 16
MAX_TAG_LENGTH: Final = 200
