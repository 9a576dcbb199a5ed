"""Limits on how large the ledger may grow by what gateways claim."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Beyond these the oldest numbers are closed (`cloud_ingest.ingest.closing`).

    An honest gateway is far below them: what it logs comes without gaps but for a few while links
    change, and only what it does not log (QoS 0) may be lost for ever.

    Attributes:
        gaps: runs of numbers of one gateway, over all its lives; a gap makes one more.
        lives: of one gateway. Fewer than 12 runs of each are always kept.
        total_gaps: runs of numbers of all gateways.

    Raises:
        ValueError: one is less than 1; the message names it.

    """

    gaps: int = 16_384
    lives: int = 1_024
    total_gaps: int = 2_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 1")

    @property
    def runs_a_gateway(self) -> int:
        """Return the runs that no gateway's numbers exceed after a commit."""
        return max(self.gaps, 12 * self.lives)
