"""Has a write carried out once, and asks again where its answer was lost (`docs/queries.md`)."""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import Final

from gateway.coap_client import CoapClient, NoAnswerError, Response
from light_dataclasses import dataclass

NAME_BYTES: Final = 8
ASKED_ONCE_S: Final = 6.0
"""A gateway answers for another one after 5 s at the latest."""
MAX_ASKED_S: Final = 60.0
PAUSE_S: Final = 0.25
_TICK_S: Final = 0.001
_BAD_OPTION: Final = "4.02"
_SERVICE_UNAVAILABLE: Final = "5.03"
_GATEWAY_TIMEOUT: Final = "5.04"


@dataclass(frozen=True, slots=True)
class Body:
    """A body to write, and its content format; None where there is nothing."""

    payload: bytes
    content_format: int | None


async def write_once(
    asker: CoapClient, uri: str, body: Body, timeout_s: float, method: str = "PUT"
) -> Response:
    """Have a write carried out, and ask again until ``timeout_s`` is over where no answer came.

    5.03 says that nothing was done for one asking. After one that was not answered that is no
    answer either: the earlier one may have been carried out.

    Raises:
        ClientError: as `CoapClient.request` does.

    """
    answer: Response | None = None

    async def ask(request_id: bytes, wait_s: float) -> Response:
        return await asker.request(
            method,
            uri,
            payload=body.payload,
            content_format=body.content_format,
            request_id=request_id,
            timeout_s=wait_s,
        )

    loop, name = asyncio.get_running_loop(), secrets.token_bytes(NAME_BYTES)
    began_s, asked_s = loop.time(), 0.0
    while True:
        left_s = max(timeout_s - asked_s, PAUSE_S)
        request_id = bytes((math.ceil(asked_s),)) + name
        is_last = left_s <= ASKED_ONCE_S or asked_s + ASKED_ONCE_S > MAX_ASKED_S
        try:
            told = await ask(request_id, min(left_s, ASKED_ONCE_S))
        except NoAnswerError as failure:
            if is_last and answer is None:
                raise NoAnswerError(f"{uri}: no answer within {timeout_s:g} s") from failure
        else:
            if told.code == _BAD_OPTION and not asked_s:  # a device, or an older release
                return await ask(b"", left_s)
            if told.code == _GATEWAY_TIMEOUT:
                answer = told
            elif told.code != _SERVICE_UNAVAILABLE or not asked_s:
                return told
        if is_last and answer is not None:  # the last that was said of it
            return answer
        if is_last:
            raise NoAnswerError(
                f"{uri}: not answered at first, and then busy: it may have been set"
            )
        await asyncio.sleep(PAUSE_S)
        # Never 0 again: that says that it was not asked before.
        asked_s = max(loop.time() - began_s, _TICK_S)
