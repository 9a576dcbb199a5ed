"""Loads the page's side of key stores when somebody first asks for it.

What reads certificates takes 6 MiB, and a gateway without any needs it for nobody who does not open
the page of keys. It is read in a thread: on a Pi that takes half a second, and messages go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.process.page.api_request import ApiRequest, Handlers
    from gateway.process.page.keys_api import KeysApi

OPERATIONS: Final = (
    *("keys", "check_keys", "import_keys", "renew_certificate"),
    *("make_key_request", "key_request", "forget_key_request"),
)
"""Those of `KeysApi`."""


class KeysWhenAsked:
    """Answers as `KeysApi` does, which is made when the first question comes.

    Args:
        make: loads and makes it; called in a thread.

    """

    def __init__(self, make: Callable[[], KeysApi]) -> None:
        self._make = make
        self._api: KeysApi | None = None

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {name: partial(self._answer, name) for name in OPERATIONS}

    async def _answer(self, operation: str, asked: ApiRequest) -> Any:
        if self._api is None:
            made = await asyncio.to_thread(self._make)
            self._api = self._api or made  # another may have asked meanwhile
        return await self._api.handlers[operation](asked)
