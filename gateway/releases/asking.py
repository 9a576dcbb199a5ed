"""Asks the listeners of this machine's gateway whether they answer."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from . import answers, websocket_questions
from .answers import CoapQuestion, DtlsQuestion, ListenerOnTrial, ListenerQuestion, MqttQuestion
from .websocket_questions import FramedMqttQuestion, UpgradeQuestion

ANSWER_S = 5.0
"""The time in which a listener answers, and in which it is asked again once."""
AGAIN_S = 1.0
"""Between one round of questions and the next."""


class ListenersOnTrial(Protocol):
    """The listeners of the gateway of this machine."""

    def schemes(self) -> list[str]:
        """Return those that it has now; empty while it does not run."""

    def complaints(self, schemes_before: Sequence[str]) -> Sequence[str]:
        """Return why listeners keep their release from staying; empty if nothing does."""


class OwnListeners:
    """Those that a gateway has told of in its state folder.

    Args:
        config: its configuration.
        within_s: in which all of them must have answered.
        sleep: waits between two rounds of asking them.

    """

    def __init__(
        self, config: Path, within_s: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._config = config
        self._within_s = within_s
        self._sleep = sleep

    def schemes(self) -> list[str]:
        """Return the schemes that the gateway listens on; empty while it does not run."""
        try:
            told = answers.asked_of(self._told(self._settings()))
        except (OSError, ValueError):
            return []
        return list(dict.fromkeys(listener.scheme for listener in told))

    def complaints(self, schemes_before: Sequence[str]) -> Sequence[str]:
        """Ask the listeners, until all of them answer or the time is over."""
        end_s = time.monotonic() + self._within_s
        while found := self._round(schemes_before):
            if time.monotonic() >= end_s:
                break
            self._sleep(AGAIN_S)
        return found

    def _round(self, schemes_before: Sequence[str]) -> Sequence[str]:
        try:
            settings = self._settings()
            listeners = answers.asked_of(self._told(settings))
        except (OSError, ValueError) as error:
            return [f"where it listens is not known: {error}"]
        heard = {one: _asked(one, self._certificate(settings), settings) for one in listeners}
        return answers.silent(heard, schemes_before)

    def _settings(self) -> dict[str, Any]:
        return tomllib.loads(self._config.read_text())

    def _told(self, settings: dict[str, Any]) -> dict[str, Any]:
        folder = settings.get("gateway", {}).get("state_dir")
        if not isinstance(folder, str):
            raise ValueError(f"{self._config}: gateway.state_dir: {folder!r}")  # noqa: TRY004
        told = json.loads((self._config.parent / folder / "listeners.json").read_bytes())
        if not isinstance(told, dict):
            raise ValueError(f"listeners.json: {told!r}")  # noqa: TRY004  # of a file
        return told

    def _certificate(self, settings: dict[str, Any]) -> tuple[Path, Path] | None:
        """Return the gateway's certificate and key, for listeners that ask for a certificate."""
        mqtt = settings.get("mqtt", {})
        names = mqtt.get("certificate_file"), mqtt.get("key_file")
        if not all(isinstance(name, str) for name in names):
            return None
        certificate, key = (self._config.parent / str(name) for name in names)
        return certificate, key


def _asked(
    listener: ListenerOnTrial, certificate: tuple[Path, Path] | None, settings: dict[str, Any]
) -> str:
    """Return why a listener gives no answer; empty if it does."""
    try:
        match listener.scheme:
            case "coap":
                return _datagram(listener, CoapQuestion(secrets.randbits(16)))
            case "coaps":
                return _datagram(listener, DtlsQuestion(secrets.token_bytes(32)))
            case "ws" | "wss":
                path = str(settings.get("mqtt", {}).get("websocket_path", ""))
                upgrade = UpgradeQuestion(listener.authority, path, secrets.token_bytes(16))
                questions = (upgrade, FramedMqttQuestion())
                return _stream(listener, questions, websocket_questions.BYE, certificate)
            case _:
                return _stream(listener, (MqttQuestion(),), answers.DISCONNECT, certificate)
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__


def _stream(
    listener: ListenerOnTrial,
    questions: Sequence[ListenerQuestion],
    bye: bytes,
    certificate: tuple[Path, Path] | None,
) -> str:
    """Ask one thing after the other over one connection, and say good-bye."""
    end_s = time.monotonic() + ANSWER_S
    wants = ""
    try:
        with socket.create_connection((listener.host, listener.port), ANSWER_S) as plain:
            is_secured = listener.scheme in {"mqtts", "wss"}
            with _secured(plain, certificate) if is_secured else plain as stream:
                for question in questions:
                    wants = question.wants
                    stream.sendall(question.data)
                    came = b""
                    while not question.answered(came):
                        stream.settimeout(max(0.01, end_s - time.monotonic()))
                        if not (more := stream.recv(1 << 10)):
                            return f"it hangs up without a {wants}"
                        came += more
                stream.sendall(bye)
    except TimeoutError:
        return f"no {wants or questions[0].wants} within {ANSWER_S:g} s"
    except ssl.SSLError as error:
        if not _wants_a_certificate(error):
            raise
    return ""


def _wants_a_certificate(error: ssl.SSLError) -> bool:
    """Return whether a listener has said that it wants a certificate, and none can be shown."""
    return error.reason in {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}


def _secured(plain: socket.socket, certificate: tuple[Path, Path] | None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is told to whoever answers, and which certificate it shows is not the question.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        # One that is encrypted or in a store stays closed: nobody is there to type a password, and
        # the listener may take a client without one.
        with contextlib.suppress(OSError, ValueError):
            context.load_cert_chain(*certificate, password="")
    return context.wrap_socket(plain)


def _datagram(listener: ListenerOnTrial, question: ListenerQuestion) -> str:
    (family, _, _, _, address), *_ = socket.getaddrinfo(
        listener.host, listener.port, type=socket.SOCK_DGRAM
    )
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        for _ in range(2):  # a datagram may be lost
            sock.settimeout(ANSWER_S / 2)
            sock.send(question.data)
            try:
                question.answered(sock.recv(1 << 12))
            except TimeoutError:
                continue
            return ""
    return f"no {question.wants} within {ANSWER_S:g} s"
