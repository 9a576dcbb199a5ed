"""Turns a ready answer into a response: whole, in gzip, or 304 where the browser has it already."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from gateway.web.ready_answer import ReadyAnswer


def ready_response(
    request: web.Request,
    answer: ReadyAnswer,
    content_type: str = "application/json",
    cache: str = "private, no-cache",
) -> web.Response:
    """Return the response: the answer, or that its browser has it (RFC 9110, section 13.1.2).

    Args:
        request: which may name the tag of the answer that its browser has.
        answer: what is asked for.
        content_type: of the answer.
        cache: who may keep it, as ``Cache-Control`` says it.

    """
    headers = {
        "ETag": answer.tag,
        "Cache-Control": cache,
        "Vary": "Accept-Encoding",
        "Content-Type": content_type,
    }
    if request.headers.get("If-None-Match") == answer.tag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if answer.zipped and "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=answer.zipped, headers=headers)
    return web.Response(body=answer.body, headers=headers)
