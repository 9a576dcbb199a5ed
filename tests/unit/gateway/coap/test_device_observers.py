"""Each observer of a device stands alone: whatever one of them raises, the others are told too."""

from __future__ import annotations

from fleet_gateway import until

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from gateway.coap.sensors.device_observers import DeviceObservers
from gateway.coap.sensors.handler_calls import ServedDevice
from gateway.sensors.switch import Switch


class Observed:
    """A device that two observe, of which the first can't be told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, bool]] = []
        self.code = codes.CONTENT
        self.observers = DeviceObservers(self.render)
        self.key = (ServedDevice(Switch("pump")), "")
        for exchange in (1, 2):
            self.observers.observe(self.key, exchange, CoapRequest(codes.GET), self.respond)

    async def render(self, _device: ServedDevice, _child: str, _asked: CoapRequest) -> CoapResponse:
        return CoapResponse(self.code)

    def respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        if exchange == 1:
            raise OSError("no room for the numbers of OSCORE")
        self.told.append((exchange, response.code, is_last))


async def test_one_that_cannot_be_told_of_a_change_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.observers.changed(observed.key)
    await until(lambda: observed.told)
    assert observed.told == [(2, codes.CONTENT, False)]
    await observed.observers.stop()


async def test_one_that_cannot_be_told_of_the_end_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.code = codes.NOT_FOUND
    observed.observers.changed(observed.key)
    await until(lambda: observed.told)
    assert observed.told == [(2, codes.NOT_FOUND, True)]
    assert len(observed.observers) == 0
    await observed.observers.stop()


def test_one_that_cannot_be_told_of_the_removal_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.observers.removed(observed.key)
    assert observed.told == [(2, codes.NOT_FOUND, True)]
    assert len(observed.observers) == 0
