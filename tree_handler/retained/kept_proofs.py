"""Proofs that a gateway keeps and can't check any more.

Of each gateway a bounded number of keys is known. So an origin that has had more of them since it
wrote something leaves its neighbours with proofs that a newcomer can't check, though it still
stands for it. Who keeps such a proof looks through all of them again and again, a few at a time,
and asks its neighbours for a fresh one beside it, as for one that it has not got. It begins at the
origin, who signs with the key that it has now, and goes on from link to link.

The old one is kept, and told until then: a clock that is wrong may be why no key counts.
"""

from __future__ import annotations

from typing import Final

from tree_handler.retained.proof import OWN, RetainedProofs
from tree_handler.retained.versions import RetainedVersions

LOOK_TOPICS: Final = 500
"""So many topics are looked at in one turn."""


class KeptProofs:
    """Looks through the proofs that are kept.

    Args:
        versions: has them.
        proofs: knows whose keys count.

    """

    def __init__(self, versions: RetainedVersions, proofs: RetainedProofs) -> None:
        self._versions = versions
        self._proofs = proofs
        self._to_look: list[str] = []
        """Topics of this round."""

    def look(self) -> bool:
        """Look at the next few; return whether there are more that can't be checked than before."""
        if not self._to_look:
            self._to_look = self._versions.proven_by_others()
        some, self._to_look = self._to_look[-LOOK_TOPICS:], self._to_look[:-LOOK_TOPICS]
        found = False
        for topic in some:
            version, proof = self._versions.version(topic), self._versions.proof(topic)
            if version is not None and proof not in {b"", OWN}:
                is_doubted = not self._proofs.can_check(version, proof)
                found |= self._versions.doubt(topic, is_doubted=is_doubted)
        return found
