"""The error of a page's API: a request is not answered as it wants."""

from __future__ import annotations

from http import HTTPStatus


class ApiError(Exception):
    """A request that is not answered as it wants.

    Args:
        status: the answer's.
        why: one line, for people.

    """

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
