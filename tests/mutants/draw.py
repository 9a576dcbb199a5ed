"""Draws which modules are changed, and what is changed in each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from changes import Change, changes_of

PACKAGES = (
    *("gateway", "tree_handler", "dtls", "resource_directory"),
    *("coap_engine", "cloud_ingest", "record_formats", "alerts", "light_dataclasses"),
)
"""Folders of the product: tests and what builds and deploys it are not changed."""


@dataclass(frozen=True)
class Mutant:
    """One drawn change.

    Args:
        number: of those drawn, from 1.
        module: path from the root of the project.
    """

    number: int
    module: str
    change: Change

    def __str__(self) -> str:
        return f"{self.number:3} {self.module} {self.change}"


def drawn_as(mutants: Iterable[Mutant]) -> str:
    """Return what tells a draw from any other one, in one word."""
    return hashlib.sha256("\n".join(map(str, mutants)).encode()).hexdigest()


def drawn(seed: int, count: int, sources: Mapping[str, str], below: str) -> list[Mutant]:
    """Draw modules without repetition, each by its number of lines, and one change in each.

    Args:
        seed: the same seed and sources give the same changes.
        count: how many; fewer where fewer modules hold something to change.
        sources: text of each Python file of the project by its path.
        below: how a path begins; of a whole package or of one folder.
    """
    draw = random.Random(seed)
    weights = {
        path: text.count("\n")
        for path, text in sorted(sources.items())
        if path.split("/")[0] in PACKAGES and path.startswith(below) and "\n" in text
    }
    mutants: list[Mutant] = []
    while weights and len(mutants) < count:
        (module,) = draw.choices(list(weights), list(weights.values()))
        del weights[module]
        if changes := changes_of(sources[module]):
            mutants.append(Mutant(len(mutants) + 1, module, draw.choice(changes)))
    return mutants
