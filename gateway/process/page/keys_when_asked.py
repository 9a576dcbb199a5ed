"""Loads the page's side of key stores when somebody first asks for it.

What reads certificates takes 6 MiB, and a gateway without any needs it for nobody who does not open
the page of keys. It is read in a thread: on a Pi that takes half a second, and messages go on.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.process.config_trials.change_on_trial import Find
    from gateway.process.configuration.config import GatewaySettings
    from gateway.process.page.administration import Administration
    from gateway.process.page.api_request import ApiRequest, Handlers
    from gateway.process.page.keys_api import KeysApi

OPERATIONS: Final = (
    *("keys", "check_keys", "import_keys", "renew_certificate"),
    *("make_key_request", "key_request", "forget_key_request"),
)
"""Those of `KeysApi`."""
_MODULE: Final = "gateway.process.page.keys_api"


class KeysWhenAsked:
    """Answers as `KeysApi` does, which it makes when the first question comes.

    Args:
        settings: of the gateway.
        administration: says who may.
        find: finds the gateway that is told, which is this process.

    """

    def __init__(
        self, settings: GatewaySettings, administration: Administration, find: Find
    ) -> None:
        self._settings = settings
        self._administration = administration
        self._find = find
        self._api: KeysApi | None = None

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {name: partial(self._answer, name) for name in OPERATIONS}

    async def _answer(self, operation: str, asked: ApiRequest) -> Any:
        if _MODULE not in sys.modules:
            await asyncio.to_thread(_load)
        if self._api is None:
            self._api = _load()(self._settings, self._administration, self._find)
        return await self._api.handlers[operation](asked)


def _load() -> type[KeysApi]:
    from gateway.process.page.keys_api import KeysApi  # noqa: PLC0415  # for who asks

    return KeysApi
