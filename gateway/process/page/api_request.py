"""A request of the API that has been checked, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

DONE: Final[Mapping[str, Any]] = {}
"""The answer to what has nothing to tell but that it is done."""


def _stays() -> None:
    """Nobody goes."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request.

    Attributes:
        visitor: who asks.
        host: the address that it comes from.
        names: what the segments in braces of the route's path stand for.
        query: the parameters that were given.
        body: the fields that were given.
        check_still_in: raises `ApiError` once the visitor is logged out, or has other roles. What
            had to wait for its turn asks again before it changes anything.

    """

    visitor: Principal
    host: str
    names: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    check_still_in: Callable[[], None] = _stays

    def is_still_in(self) -> bool:
        """Return whether the visitor is logged in, with the roles that it had."""
        try:
            self.check_still_in()
        except ApiError:
            return False
        return True


AnswerApi = Callable[[ApiRequest], Awaitable[Any]]
"""Answers a request with a document for JSON, or with a page; raises `ApiError`."""
Handlers = Mapping[str, AnswerApi]
"""By the operation that each carries out."""
