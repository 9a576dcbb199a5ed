"""Numbers as a narrow column shows them: few digits, with a unit."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN: Final = "-"
_THOUSANDS: Final = ("", "k", "M", "G", "T")
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def number(value: float | None) -> str:
    """Return a number with three digits or so: ``0.5``, ``42``, ``1.2k``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size < 10 and not float(value).is_integer():
        return f"{value:.1f}"
    power = 0
    while size >= 999.5 and power < len(_THOUSANDS) - 1:
        size, power = size / 1000, power + 1
    sign = "-" if value < 0 else ""
    digits = f"{size:.1f}" if power and size < 9.95 else f"{size:.0f}"
    return f"{sign}{digits}{_THOUSANDS[power]}"


def size(value_bytes: float | None) -> str:
    """Return bytes in powers of 1,000, as ``hedgerow status`` has them: ``1.2 MB``."""
    text = number(value_bytes)
    if text == UNKNOWN:
        return text
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def milliseconds(value_s: float | None) -> str:
    """Return seconds as milliseconds: ``0.25``, ``12``."""
    if value_s is None or not math.isfinite(value_s):
        return UNKNOWN
    value_ms = value_s * 1000
    return f"{value_ms:.2g}" if value_ms < 10 else number(value_ms)


def span(value_s: float | None) -> str:
    """Return a time in its two greatest units: ``3 d 4 h``, ``12 min``, ``8 s``."""
    if value_s is None or not math.isfinite(value_s) or value_s < 0:
        return UNKNOWN
    whole = int(value_s)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def sparkline(values: list[float], cells: int) -> str:
    """Return the last values as blocks of eight heights, of which the greatest is the whole."""
    shown = values[-cells:] if cells > 0 else []
    most = max(shown, default=0.0)
    if most <= 0:
        return _BLOCKS[0] * len(shown)
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[max(0, min(last, round(one / most * last)))] for one in shown)
