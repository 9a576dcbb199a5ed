"""A CoAP client for ``coap://`` and, with a pre-shared key, ``coaps://``."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, quote, urlsplit

import aiocoap
from aiocoap import error as coap_error
from aiocoap.messagemanager import MessageManager
from aiocoap.numbers.codes import Code
from aiocoap.numbers.constants import COAPS_PORT
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.optiontypes import OpaqueOption
from aiocoap.protocol import Context
from aiocoap.tokenmanager import TokenManager

from coap_engine.option_numbers import REQUEST_ID
from dtls.errors import HandshakeFailedError, HandshakeTimeoutError
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from dtls.client_transport import DtlsClientTransport
    from dtls.context import ClientContext


ANSWER_BYTES: Final = 16 << 20
"""As much as a gateway may be told to take as one body."""


class ClientError(Exception):
    """A request got no response; the message says why."""


class BadUriError(ClientError):
    """A URI, a method or a credential can't be used; the message names the part."""


class UnreachableError(ClientError):
    """The host is not known, or nobody listens there."""


class NoAnswerError(ClientError):
    """There was no answer in time."""


class HandshakeRefusedError(ClientError):
    """The server took neither identity nor key, or speaks no DTLS."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of a server.

    Attributes:
        code: the response code, as ``2.05``.
        payload: the whole payload, put together if it came in blocks.
        content_format: its number (RFC 7252, section 12.3), None if the server named none.
        location: the path of what was created (Location-Path), as ``/sensors/pump``; empty where
            the server named none.

    """

    code: str
    payload: bytes
    content_format: int | None
    location: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the request succeeded (2.xx)."""
        return self.code.startswith("2.")


class _BodyTooLongError(coap_error.NetworkError):  # type: ignore[misc]  # aiocoap is untyped
    """An answer goes on and on. As errors of the network aiocoap tells it once.

    Args:
        most: bytes that it might have.

    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._most = most

    def __str__(self) -> str:
        return f"an answer of more than {self._most} bytes"


class _BoundedContext(Context):  # type: ignore[misc]  # aiocoap is untyped
    """A context that asks for no more blocks of an answer than it may have.

    aiocoap puts together whatever a server has, and copies all of it for each block.

    Attributes:
        body_bytes: of an answer.

    """

    body_bytes = ANSWER_BYTES

    def request(self, request_message: Any, handle_blockwise: bool = True) -> Any:  # aiocoap's
        """Send a request; raises `_BodyTooLongError` for a block behind the limit."""
        block = request_message.opt.block2
        if not handle_blockwise and block is not None and block.start >= self.body_bytes:
            raise _BodyTooLongError(self.body_bytes)
        return super().request(request_message, handle_blockwise)


class CoapClient:
    """Sends requests; sessions and sockets are kept until `close`.

    Args:
        psk_identity: identity for ``coaps``.
        psk_key: the key that goes with it.
        answer_bytes: of an answer, or a little more; one that is longer is an error.

    Raises:
        BadUriError: one of both is missing, or the identity is too long.

    """

    def __init__(
        self,
        *,
        psk_identity: str | None = None,
        psk_key: bytes | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        if (psk_identity is None) != (psk_key is None):
            raise BadUriError("psk_identity and psk_key go together")
        self._answer_bytes = answer_bytes
        self._keys: ClientContext | None = None
        if psk_identity is not None and psk_key is not None:
            from dtls.context import ClientContext  # noqa: PLC0415  # coap:// needs no OpenSSL

            try:
                self._keys = ClientContext(psk_identity, psk_key)
            except ValueError as failure:
                raise BadUriError(str(failure)) from failure
        self._plain: Context | None = None
        self._secure: Context | None = None
        self._dtls: DtlsClientTransport | None = None

    async def request(
        self,
        method: str,
        uri: str,
        *,
        payload: bytes = b"",
        content_format: int | None = None,
        accept: int | None = None,
        request_id: bytes = b"",
        timeout_s: float = 10.0,
    ) -> Response:
        """Send a request and wait for its response, whatever its code.

        Args:
            method: ``GET``, ``POST``, ``PUT``, ``DELETE``, ``FETCH``, ``PATCH`` or ``iPATCH``.
            uri: ``coap://host[:port]/path[?query]`` or ``coaps://``.
            payload: sent in blocks if it is long.
            content_format: what the payload is.
            accept: what the response should be.
            request_id: names a write that may be asked again (`docs/queries.md`); empty for none.
            timeout_s: for all of it, the handshake included.

        Raises:
            BadUriError: the URI or the method can't be used.
            UnreachableError: the host is not known, or nobody listens there.
            NoAnswerError: there was no answer in time.
            HandshakeRefusedError: the server refused identity or key.

        """
        parts = check_uri(uri)
        message = _message(method, uri, payload, content_format, accept, request_id)
        deadline = asyncio.get_running_loop().time() + timeout_s
        context = await self._context(message, parts, timeout_s)
        is_silent = self._noting_silence(message, parts)
        try:
            async with asyncio.timeout_at(deadline):
                answer = await context.request(message).response
                if answer.code == Code.UNAUTHORIZED and answer.opt.echo is not None:
                    # The server wants to see that our address is ours (RFC 9175, section 2.3).
                    again = _message(method, uri, payload, content_format, accept, request_id)
                    again.remote, again.opt.echo = message.remote, answer.opt.echo
                    answer = await context.request(again).response
        except (TimeoutError, coap_error.TimeoutError) as failure:
            is_silent()
            raise NoAnswerError(f"{uri}: no answer within {timeout_s:g} s") from failure
        except _BodyTooLongError as failure:
            raise ClientError(f"{uri}: {failure}") from failure
        except (OSError, coap_error.Error) as failure:
            raise UnreachableError(f"{uri}: {_cause(failure)}") from failure
        return _response(answer)

    async def observe(
        self, uri: str, *, accept: int | None = None, timeout_s: float = 10.0
    ) -> AsyncGenerator[Response, None]:
        """Read a resource, and again whenever it changes (RFC 7641).

        It ends after the first answer if the server does not let the resource be observed, and
        otherwise when the server ends the observation.

        Args:
            uri: as `request` has it.
            accept: likewise.
            timeout_s: for the first answer.

        Raises:
            ClientError: as `request` does.

        """
        parts = check_uri(uri)
        message = _message("GET", uri, b"", None, accept)
        message.opt.observe = 0
        context = await self._context(message, parts, timeout_s)
        is_silent = self._noting_silence(message, parts)
        asked = context.request(message)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await asked.response
                if answer.code == Code.UNAUTHORIZED and answer.opt.echo is not None:
                    again = _message("GET", uri, b"", None, accept)
                    again.remote, again.opt.echo = message.remote, answer.opt.echo
                    again.opt.observe = 0
                    asked = context.request(again)
                    answer = await asked.response
            yield _response(answer)
            async for changed in asked.observation:
                yield _response(changed)
        except (TimeoutError, coap_error.TimeoutError) as failure:
            is_silent()
            raise NoAnswerError(f"{uri}: no answer within {timeout_s:g} s") from failure
        except _BodyTooLongError as failure:
            raise ClientError(f"{uri}: {failure}") from failure
        except (OSError, coap_error.Error) as failure:
            raise UnreachableError(f"{uri}: {_cause(failure)}") from failure
        finally:
            if not asked.observation.cancelled:
                asked.observation.cancel()

    async def close(self) -> None:
        """Close sessions and sockets."""
        contexts = [c for c in (self._plain, self._secure) if c is not None]
        self._plain = self._secure = self._dtls = None
        for context in contexts:
            await context.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _context(self, message: Any, parts: SplitResult, timeout_s: float) -> Context:
        """Return what a message is sent through; over DTLS it is addressed to the session."""
        if parts.scheme == "coaps":
            return await self._connect(message, parts, timeout_s)
        if self._plain is None:
            self._plain = await _BoundedContext.create_client_context(transports=["simple6"])
            self._plain.body_bytes = self._answer_bytes
        return self._plain

    def _noting_silence(self, message: Any, parts: SplitResult) -> Callable[[], None]:
        """Return what is to be called if no answer comes; without a session that does nothing."""
        if parts.scheme != "coaps" or self._dtls is None:
            return _do_nothing
        return self._dtls.noting_silence(message.remote)

    async def _connect(self, message: Any, parts: SplitResult, timeout_s: float) -> Context:
        """Have a session with the server, and address the message to it."""
        where = f"{parts.scheme}://{parts.netloc}"
        keys = self._keys
        if keys is None:
            raise BadUriError(f"{where}: coaps needs psk_identity and psk_key")
        if self._secure is None or self._dtls is None:
            self._secure = _BoundedContext(loop=asyncio.get_running_loop())
            self._secure.body_bytes = self._answer_bytes
            self._dtls = attach_dtls(self._secure, keys)
        host = parts.hostname or ""
        try:
            message.remote = await self._dtls.connect(host, parts.port or COAPS_PORT, timeout_s)
        except HandshakeFailedError as failure:
            raise HandshakeRefusedError(f"{where}: {failure}") from failure
        except HandshakeTimeoutError as failure:
            if failure.answered:
                raise HandshakeRefusedError(f"{where}: {failure}") from failure
            raise NoAnswerError(f"{where}: {failure}") from failure
        except OSError as failure:
            raise UnreachableError(f"{where}: {_cause(failure)}") from failure
        return self._secure


async def request(
    method: str,
    uri: str,
    *,
    payload: bytes = b"",
    content_format: int | None = None,
    accept: int | None = None,
    psk_identity: str | None = None,
    psk_key: bytes | None = None,
    timeout_s: float = 10.0,
) -> Response:
    """Send one request with a client of its own; arguments and errors are `CoapClient`'s."""
    async with CoapClient(psk_identity=psk_identity, psk_key=psk_key) as client:
        return await client.request(
            method,
            uri,
            payload=payload,
            content_format=content_format,
            accept=accept,
            timeout_s=timeout_s,
        )


def check_uri(uri: str) -> SplitResult:
    """Split a URI (RFC 7252, section 6).

    Raises:
        BadUriError: naming the part that is wrong.

    """
    try:
        parts = urlsplit(uri)
    except ValueError as failure:
        raise BadUriError(f"{uri}: host: {failure}") from failure
    if parts.scheme not in ("coap", "coaps"):
        raise BadUriError(f"{uri}: scheme {parts.scheme!r}, coap or coaps is needed")
    if not parts.hostname:
        raise BadUriError(f"{uri}: no host")
    if parts.username is not None or parts.password is not None:
        raise BadUriError(f"{parts.scheme}://...: a user name has no place in a CoAP URI")
    if parts.fragment:
        raise BadUriError(f"{uri}: fragment #{parts.fragment}")
    try:
        port = parts.port
    except ValueError as failure:
        raise BadUriError(f"{uri}: the port is no number from 1 to 65535") from failure
    if port == 0:
        raise BadUriError(f"{uri}: port 0")
    return parts


def _message(
    method: str,
    uri: str,
    payload: bytes,
    content_format: int | None,
    accept: int | None,
    request_id: bytes = b"",
) -> Any:
    code = _METHODS.get(method.upper())
    if code is None:
        raise BadUriError(f"method {method!r}, one of {', '.join(_METHODS)} is needed")
    message = aiocoap.Message(code=code, payload=payload)
    try:
        message.set_request_uri(uri)
    except ValueError as failure:  # aiocoap's own errors are of this kind
        raise BadUriError(f"{uri}: {failure}") from failure
    if content_format is not None:
        message.opt.content_format = content_format
    if accept is not None:
        message.opt.accept = accept
    if request_id:
        message.opt.add_option(OpaqueOption(OptionNumber(REQUEST_ID), request_id))
    return message


def _response(answer: Any) -> Response:
    form = answer.opt.content_format
    form = None if form is None else int(form)
    location = "".join(f"/{quote(segment, safe='')}" for segment in answer.opt.location_path)
    return Response(answer.code.dotted, answer.payload, form, location)


def _do_nothing() -> None:
    """Do nothing."""


def attach_dtls(context: Context, keys: ClientContext) -> DtlsClientTransport:
    """Put our DTLS under an aiocoap context, as aiocoap does with its own transports.

    Args:
        context: it may have a site: servers may ask that back in a session.
        keys: identity and key of its sessions.

    """
    from dtls.client_transport import DtlsClientTransport  # noqa: PLC0415  # as above

    tokens = TokenManager(context)
    messages = MessageManager(tokens)
    transport = DtlsClientTransport(keys, messages)
    messages.message_interface = transport
    tokens.token_interface = messages
    context.request_interfaces.append(tokens)
    return transport


_METHODS = {
    str(code).upper(): code
    for code in (
        *(Code.GET, Code.POST, Code.PUT, Code.DELETE),
        *(Code.FETCH, Code.PATCH, Code.iPATCH),
    )
}


def _cause(failure: BaseException) -> str:
    """Return the system's own words, which aiocoap wraps."""
    cause = failure.__cause__
    if isinstance(cause, OSError):
        failure = cause
    if isinstance(failure, socket.gaierror):
        return failure.strerror or "the host name is not known"
    if isinstance(failure, OSError):
        return failure.strerror or str(failure)
    return str(failure) or type(failure).__name__
