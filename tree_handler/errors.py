"""Errors that a core of this package raises when bytes or values from outside are wrong."""

from __future__ import annotations

import reprlib
from typing import Final

_SHORT: Final = reprlib.Repr()
"""Looks at the beginning of a value alone, however much a peer has packed into it."""
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 100
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 8


class ProtocolError(ValueError):
    """A peer's bytes or a caller's value breaks the tree protocol.

    Args:
        what: the packet or field at fault, as it is named in the protocol.
        value: the offending value, shown shortened.

    """

    def __init__(self, what: str, value: object = None) -> None:
        shown = _SHORT.repr(value[:80] if isinstance(value, str | bytes) else value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(what if value is None else f"{what}: {shown}")
        self.what = what
        self.value = value


class BatchError(ProtocolError):
    """A batch is torn, corrupt or not a batch."""


class BpduError(ProtocolError):
    """A tree message is not one of this version, or a field of it is out of bounds."""
