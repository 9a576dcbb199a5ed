"""Files of certificates that a configuration names, and what each serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.process.access import secure_files
from gateway.process.configuration.config import GatewaySettings
from gateway.trust.certificates.holdings import FIELDS, ServingFile
from gateway.trust.tls.context import TlsFiles


def serving_files(settings: GatewaySettings) -> Iterator[ServingFile]:
    """List the files of each section, in the clear, and what they serve.

    Args:
        settings: name them.

    Raises:
        TlsFileError: one under a password can't be opened.

    """
    password, mqtt = settings.keys.password_file, settings.mqtt
    broker = [f"mqtt.{name}" for name in ("tls_port", "secure_websocket_port")]
    served = [name for name in broker if getattr(mqtt, name.partition(".")[2]) is not None]
    if mqtt.has_link_files and settings.tree.tls != "off":
        served += ["links", *(["signatures"] if settings.tree.signatures == "on" else [])]
    coap, console = settings.coap, settings.console
    yield from _of("mqtt", mqtt, secure_files.tls_files(mqtt, password), served)
    yield from _of("coap", coap, secure_files.coap_files(coap, password), ["coap.dtls_port"])
    given = secure_files.console_files(console, password)
    yield from _of("console", console, given, ["console.port"])


def _of(
    section: str, of: object, given: TlsFiles | None, serves: Sequence[str]
) -> Iterator[ServingFile]:
    if given is None:
        return
    readable = {
        "certificate_file": given.certificate,
        "client_ca_file": given.client_ca,
        "client_crl_file": given.client_crl,
    }
    for field in FIELDS:
        file, clear = getattr(of, field), readable[field]
        if file is not None and clear is not None:
            yield ServingFile(f"{section}.{field}", file, clear, ", ".join(serves))
