"""Door to setting up: whoever knows the setup code may, one at a time, and once. Pure.

What is decided here and nowhere else: how often codes may be tried, who is at it, and when it is
over. The stages go one way:

    WAITING --code--> OPEN --begin--> WORKING --done--> DONE --close--> CLOSED
       ^               | idle, left      | failed
       +---------------+<----------------+ (OPEN again)

Times are in seconds, of a clock that only goes forward.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Literal

from gateway.tools.first_start.setup_card import normal
from light_dataclasses import dataclass
from tree_handler.rate_limit import RateLimit

WRONG_AT_ONCE: Final = 5
WRONG_PER_S: Final = 0.1
"""Of one address."""
ALL_WRONG_AT_ONCE: Final = 20
ALL_WRONG_PER_S: Final = 1.0
"""Of all addresses: a neighbour has as many as it likes."""
IDLE_S: Final = 15 * 60.0
"""Then another one may begin."""
TOKEN_CHARACTERS_MAX: Final = 128

SetupDenial = Literal["wrong", "later", "taken", "over", "stranger"]
"""The reason of a refusal: a wrong code, too many of them, another one is at it, the gateway has an
owner, or no code was given at all."""


class SetupStage(enum.Enum):
    """The progress of a first start."""

    WAITING = "code"
    OPEN = "form"
    WORKING = "working"
    DONE = "done"
    CLOSED = "closed"


class DeniedError(Exception):
    """Somebody is refused.

    Args:
        why: one word for it.
        holder: the address of who is at it, if that is why.

    """

    def __init__(self, why: SetupDenial, holder: str = "") -> None:
        super().__init__(why)
        self.why: SetupDenial = why
        self.holder = holder


@dataclass(slots=True)
class _Holder:
    token: bytes
    address: str
    used_s: float


class SetupDoor:
    """The door.

    Args:
        code: the setup code.
        token: makes one that nobody can guess.

    Attributes:
        stage: how far it is.

    """

    def __init__(self, code: str, token: Callable[[], str]) -> None:
        assert code
        self.stage = SetupStage.WAITING
        self._code = code
        self._token = token
        self._holder: _Holder | None = None
        self._wrong = RateLimit(WRONG_PER_S, WRONG_AT_ONCE)
        self._all_wrong = RateLimit(ALL_WRONG_PER_S, ALL_WRONG_AT_ONCE)

    def enter(self, typed: str, address: str, now_s: float, *, instead: bool = False) -> str:
        """Let somebody in by the code.

        Args:
            typed: the code as it was typed.
            address: where it comes from.
            now_s: the time.
            instead: whether who is at it has to leave, who knows the code as well.

        Returns:
            The token that is shown from now on.

        Raises:
            DeniedError: the code is wrong, was wrong too often, or another one is at it.

        """
        if self.stage in (SetupStage.DONE, SetupStage.CLOSED):
            raise DeniedError("over")
        if self._wrong.is_over(address, now_s) or self._all_wrong.is_over("", now_s):
            raise DeniedError("later")
        if not hmac.compare_digest(normal(typed).encode(), self._code.encode()):
            self._wrong.count(address, now_s)
            self._all_wrong.count("", now_s)
            raise DeniedError("wrong")
        holder = self._holder
        if holder is not None and now_s - holder.used_s <= IDLE_S and not instead:
            raise DeniedError("taken", holder.address)
        if self.stage is SetupStage.WORKING:  # what is being written can't be called back
            raise DeniedError("taken", "" if holder is None else holder.address)
        made = self._token()
        self._holder = _Holder(_hash(made), address, now_s)
        self.stage = SetupStage.OPEN
        return made

    def is_held_by(self, token: str, now_s: float) -> bool:
        """Return whether a token is of who is at it, or who has been to the end."""
        holder = self._holder
        if holder is None or not 0 < len(token) <= TOKEN_CHARACTERS_MAX:
            return False
        if not hmac.compare_digest(_hash(token), holder.token):
            return False
        if self.stage is SetupStage.OPEN and now_s - holder.used_s > IDLE_S:
            self._leave()
            return False
        holder.used_s = now_s
        return True

    def begin(self, token: str, now_s: float) -> None:
        """Begin to write the gateway; nobody else may until it is done or has failed.

        Raises:
            DeniedError: the token is nobody's, or something is being written or is.

        """
        if self.stage in (SetupStage.DONE, SetupStage.CLOSED):
            raise DeniedError("over")
        if not self.is_held_by(token, now_s):
            raise DeniedError("stranger")
        if self.stage is SetupStage.WORKING:
            raise DeniedError("taken")
        self.stage = SetupStage.WORKING

    def failed(self) -> None:
        """Go back to the form: nothing was written."""
        if self.stage is SetupStage.WORKING:
            self.stage = SetupStage.OPEN

    def done(self) -> None:
        """The gateway is written, and has an owner."""
        self.stage = SetupStage.DONE

    def close(self) -> None:
        """Let nobody in any more."""
        self.stage = SetupStage.CLOSED

    def _leave(self) -> None:
        self._holder = None
        self.stage = SetupStage.WAITING


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
