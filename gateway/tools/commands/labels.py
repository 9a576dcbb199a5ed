"""Labels for the cards and cases of a fleet, as a page to print."""

from __future__ import annotations

import html
from collections.abc import Iterable

from gateway.tools.commands import qr
from light_dataclasses import dataclass

_HEAD = """\
<!doctype html>
<meta charset="utf-8">
<title>Hedgerow: labels</title>
<style>
body { font: 11pt/1.3 sans-serif; margin: 8mm; }
div { display: inline-flex; align-items: center; gap: 3mm; width: 84mm; height: 32mm;
  border: 0.2mm dashed #888; margin: 0 1mm 1mm 0; padding: 1mm;
  break-inside: avoid; overflow: hidden; }
svg { width: 28mm; height: 28mm; flex: none; }
b { font-size: 14pt; overflow-wrap: anywhere; }
</style>
"""


@dataclass(frozen=True, slots=True)
class CardLabel:
    """The label of one card.

    Attributes:
        id: the gateway's, in letters and as a QR code.
        place: where it goes.
        date: when its card was made.

    """

    id: str
    place: str
    date: str


def page(labels: Iterable[CardLabel]) -> str:
    """Return the page, in HTML without anything from elsewhere."""
    return _HEAD + "".join(map(_label, labels))


def _label(label: CardLabel) -> str:
    lines = (f"<b>{html.escape(label.id)}</b>", html.escape(label.place), html.escape(label.date))
    return f"<div>{qr.drawing(label.id)}<span>{'<br>'.join(lines)}</span></div>\n"
