"""Public paths of a configuration, as rules on what anybody may read over CoAP.

A path below ``/q`` leads to other gateways. It opens the way to them; what of theirs is public
is theirs to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.trust.policy.action import READS
from gateway.trust.policy.rule import ALLOW, EVERYBODY, PUBLIC, Rule

EVERYTHING: Final = ("/",)
"""Prefix of all paths."""
_QUERY: Final = "q"
_PLACE_PARTS: Final = 3


def rules_here(paths: Sequence[str]) -> list[Rule]:
    """For this gateway.

    Args:
        paths: what is below one is public too.

    """
    return [rule for path in paths for rule in _rules(_segments(path))]


def rules_elsewhere(paths: Sequence[str]) -> list[Rule]:
    """For other gateways, as far as this one decides.

    Args:
        paths: as `rules_here` has them.

    """
    found: list[Rule] = []
    for segments in map(_segments, paths):
        if not segments:
            found += _rules([])
        elif segments[0] == _QUERY:
            place, rest = segments[1 : 1 + _PLACE_PARTS], segments[1 + _PLACE_PARTS :]
            found += _rules(rest, ("/".join(place),) if place else ())
    return found


def _rules(segments: Sequence[str], at: tuple[str, ...] = ()) -> Iterator[Rule]:
    target = "".join(f"/{segment}" for segment in (*segments, "#"))
    return (Rule(ALLOW, verb, target, EVERYBODY, at, PUBLIC) for verb in READS)


def _segments(path: str) -> list[str]:
    # A percent sign is one in the path as rules name it, and one in the rule.
    escaped = path.replace("%", "%%25")
    return [part for part in escaped.split("/") if part not in ("", "#")]
