"""Goal: a connection that ends before a broker has said a word is told with what to do about it."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl

import pytest

from gateway.tools.commands.mqtt_client import Login, MqttClient, MqttClientError


class Writer:
    """Takes all that is written."""

    def write(self, data: bytes) -> None:
        assert data


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] a text of OpenSSL (_ssl.c:2580)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (None, "the connection was closed before an answer: a port of MQTT over TLS takes"),
        (
            alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "the connection was lost: certificate required; --cert and --key show one",
        ),
        (
            alert("TLSV1_ALERT_UNKNOWN_CA"),
            "the connection was lost: unknown ca; --cert and --key show one",
        ),
        (alert("WRONG_VERSION_NUMBER"), "the connection was lost: wrong version number"),
        (
            OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)),
            "the connection was lost: Connection reset by peer",
        ),
    ],
    ids=["closed", "certificate required", "unknown authority", "no TLS", "reset"],
)
async def test_the_end_of_a_connection_is_told(ending: Exception | None, said: str) -> None:
    reader = asyncio.StreamReader()
    if ending is None:
        reader.feed_eof()
    else:
        reader.set_exception(ending)
    client = MqttClient(reader, Writer())  # type: ignore[arg-type]  # no transport is needed
    with pytest.raises(MqttClientError) as ended:
        await client.connect(Login(), 0)
    assert str(ended.value).startswith(said)
    assert "_ssl.c" not in str(ended.value)
