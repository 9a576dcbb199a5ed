"""A CoAP device on the network, as a sensor or an actuator: polled, or observed (RFC 7641).

Its answers are read by their content format: SenML in JSON or CBOR, JSON with a pointer, or text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.coap_client import BadUriError, ClientError, CoapClient, Response, check_uri
from gateway.sensors import senml
from gateway.sensors.declared import driver
from gateway.sensors.mqtt_device import (
    HOLDS_S,
    KIND,
    OFF,
    ON,
    PAYLOAD,
    POINTER,
    UNIT,
    MessageForm,
    message_form,
)
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import NAME, DriverParameter
from gateway.sensors.sampler import CALL_S
from gateway.sensors.schedule import back_off_s
from gateway.sensors.sensor import Actuator, Sensor, ValueRefusedError
from gateway.sensors.values import Outcome, fitting
from record_formats.value import Value

TEXT: Final = 0
OCTETS: Final = 42
"""Content formats text/plain and application/octet-stream (RFC 7252, section 12.3)."""
OF_URI: Final = DriverParameter(
    "uri", "text", "of the device's resource: coap:// or coaps://", is_needed=True
)
OBSERVE: Final = DriverParameter(
    "observe", "flag", "observe it (RFC 7641) instead of asking", default=False
)
WRITABLE: Final = DriverParameter(
    "writable", "flag", "it is an actuator, set by PUT", default=False
)
PERIOD: Final = DriverParameter(
    "interval_s",
    "number",
    f"how often it is asked (10); of one that is observed, how long a value holds ({HOLDS_S:g})",
    unit="s",
)
PSK_FILE: Final = DriverParameter(
    "psk_file", "text", "IDENTITY:HEXKEY lines, needed for coaps", is_near=True
)
PSK_IDENTITY: Final = DriverParameter(
    "psk_identity", "text", "identity in the file; else its first one"
)
_BAD_REQUEST: Final = "4.00"
AGAIN_S: Final = 1.0
"""An observation that ended is begun anew after so long, and then less and less often."""
ASKED_S: Final = CALL_S - 1.0
"""A device has so long to answer. A call that the sampler ends first would tell the client nothing
of a silent device, so that a session that the device has forgotten would stay (`CoapClient`)."""
SILENT_LEAST_S: Final = 1.0
"""One that tells nothing is begun anew after half of the time for which a value holds, and not
before this."""


class _SilentDeviceError(Exception):
    """An observation has told nothing for long."""


class CoapSensor(Sensor):
    """A resource of a device.

    Args:
        name: the sensor's name.
        device: the resource, and how it is read.
        interval_s: how often it is asked; of one that is observed, how long a value holds.
        unit: of the value.

    """

    def __init__(self, name: str, device: CoapDevice, *, interval_s: float, unit: str = "") -> None:
        super().__init__(name, interval_s=interval_s, unit=unit)
        self.kind = device.form.kind
        self.is_pushed = device.is_observed
        self._device = device
        self._observing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Observe it, if it is to be observed."""
        if self.is_pushed:
            self._observing = asyncio.create_task(self._observe(), name=f"observe {self.name}")

    async def read(self) -> Outcome:
        """Return what the device answers.

        Raises:
            ClientError: it does not, or with an error.
            ValueError: it is not the value that is looked for.

        """
        return await self._device.get()

    async def close(self) -> None:
        """End the observation, and give back the sockets."""
        if self._observing is not None:
            self._observing.cancel()
            await asyncio.gather(self._observing, return_exceptions=True)
        await self._device.close()

    async def _observe(self) -> None:
        failures = 0
        while True:
            count = 0
            try:
                async with aclosing(self._device.client.observe(self._device.uri)) as responses:
                    while (response := await self._next(responses, count)) is not None:
                        self.push(self._device.value(response))
                        count += 1
                if count == 1:
                    self.push(ClientError(f"{self._device.uri}: can't be observed"))
                failures = 0 if count > 1 else failures
            except _SilentDeviceError:
                # Nothing has changed there, or the device has started anew and knows no observers
                # any more: to ask again tells which (RFC 7641, section 3.3.1).
                failures = 0
                continue
            except Exception as error:  # whatever came, the device is observed again
                self.push(error)
            failures += 1
            await asyncio.sleep(back_off_s(AGAIN_S, failures))

    async def _next(self, responses: AsyncGenerator[Response, None], count: int) -> Response | None:
        """Return what an observation tells next; None at its end.

        Args:
            responses: of the observation; for the first one it has a limit of its own.
            count: those that came.

        Raises:
            _SilentDeviceError: it tells nothing for long.

        """
        limit_s = max(self.interval_s / 2, SILENT_LEAST_S) if count else None
        try:
            async with asyncio.timeout(limit_s):
                return await anext(responses, None)
        except TimeoutError as silence:
            raise _SilentDeviceError from silence


class CoapActuator(CoapSensor, Actuator):
    """A resource that can be set."""

    interface = Actuator.interface

    async def write(self, value: Value) -> None:
        """Set it.

        Raises:
            ValueRefusedError: the device says 4.00.
            ClientError: the device does not answer, or refuses otherwise.

        """
        await self._device.put(value)


class CoapDevice:
    """A resource, and how it is asked.

    Args:
        uri: of the resource.
        form: of its answers.
        is_observed: whether it is observed.
        keys: of a session, for ``coaps``.

    """

    def __init__(
        self,
        uri: str,
        form: MessageForm,
        *,
        is_observed: bool = False,
        keys: tuple[str, bytes] | None = None,
    ) -> None:
        self.uri = uri
        self.form = form
        self.is_observed = is_observed
        self._keys = keys
        self._client: CoapClient | None = None

    @property
    def client(self) -> CoapClient:
        """Return the client that asks the device."""
        if self._client is None:
            identity, key = self._keys or (None, None)
            self._client = CoapClient(
                psk_identity=identity, psk_key=key, answer_bytes=senml.MAX_BYTES
            )
        return self._client

    async def get(self) -> Value:
        """Return its value; raises as `CoapSensor.read`."""
        return self.value(await self.client.request("GET", self.uri, timeout_s=ASKED_S))

    async def put(self, value: Value) -> None:
        """Set it, as text; raises as `CoapActuator.write`."""
        is_bytes = isinstance(value, bytes)
        payload = value if isinstance(value, bytes) else self.form.command(value)
        form = OCTETS if is_bytes else TEXT
        answer = await self.client.request(
            "PUT", self.uri, payload=payload, content_format=form, timeout_s=ASKED_S
        )
        if answer.code == _BAD_REQUEST:
            raise ValueRefusedError(f"the device: {_diagnostic(answer)}")
        if not answer.ok:
            raise ClientError(_refusal(answer))

    async def close(self) -> None:
        """Give back what it holds."""
        if self._client is not None:
            await self._client.close()

    def value(self, response: Response) -> Value:
        """Return what a response says.

        Raises:
            ClientError: it is an error.
            ValueError: it does not say the value that is looked for.

        """
        if not response.ok:
            raise ClientError(_refusal(response))
        form = response.content_format
        if form in (senml.CONTENT_FORMAT, senml.CBOR_FORMAT):
            for record in senml.decode(response.payload, form):
                if self.form.pointer in ("", record.name):
                    return fitting(record.value, self.form.kind)
            raise ValueError(f"no record {self.form.pointer!r}")
        return self.form.value(response.payload)


def _refusal(response: Response) -> str:
    return f"{response.code} {_diagnostic(response)}".rstrip()


def _diagnostic(response: Response) -> str:
    return response.payload[:80].decode(errors="replace")


@driver(
    "a device's CoAP resource, asked or observed; an actuator if writable",
    OF_URI,
    OBSERVE,
    WRITABLE,
    PAYLOAD,
    POINTER,
    KIND,
    ON,
    OFF,
    UNIT,
    PERIOD,
    PSK_FILE,
    PSK_IDENTITY,
)
def build(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with a ``uri``, or the actuator, if it is ``writable``.

    Raises:
        SensorConfigError: a key is wrong.

    """
    uri = options.take(OF_URI)
    try:
        scheme = check_uri(uri).scheme
    except BadUriError as error:
        raise options.error("uri", str(error)) from error
    keys = _keys(options) if scheme == "coaps" else None
    is_observed = options.take(OBSERVE)
    device = CoapDevice(uri, message_form(options), is_observed=is_observed, keys=keys)
    made = CoapActuator if options.take(WRITABLE) else CoapSensor
    given: float | None = options.take(PERIOD)
    interval_s = (HOLDS_S if is_observed else 10.0) if given is None else given
    unit = options.take(UNIT)
    return [made(options.take(NAME), device, interval_s=interval_s, unit=unit)]


def _keys(options: SensorOptions) -> tuple[str, bytes]:
    file = options.take(PSK_FILE)
    if file is None:
        raise options.error("psk_file", "missing")
    try:
        keys = keystore.load(Path(file))
    except KeystoreError as error:
        raise options.error("psk_file", str(error)) from error
    known = next(iter(keys.identities()), "")
    identity = options.take(PSK_IDENTITY) or known
    if not identity:
        raise options.error("psk_identity", "missing")
    key = keys.key_of(identity.encode())
    if key is None:
        raise options.error("psk_identity", f"{identity!r} is not in {file}")
    return identity, key
