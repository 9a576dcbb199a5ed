"""The last values of sensors, at hand: rendered once for all who ask and all who observe."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Protocol

from aiocoap.numbers.contentformat import ContentFormat

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.representations import tagged
from gateway.coap.responders import KeptResponse, RespondTo
from gateway.coap.told_in_turns import ToldInTurns
from gateway.sensors import senml
from gateway.sensors.reading import Reading
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from light_dataclasses import dataclass

_log = logging.getLogger(__name__)
PATH: Final = "sensors"
FORMATS: Final = (senml.CONTENT_FORMAT, senml.CBOR_FORMAT, int(ContentFormat.TEXT))
KEPT_MAX: Final = 4_096
"""Responses that are kept for the next who asks the same."""


class ServedSensor(Protocol):
    """A sensor's resource, as far as it is needed here."""

    @property
    def sensor(self) -> Sensor:
        """Return the sensor that is served."""

    def good_for_s(self, reading: Reading) -> float:
        """Return how long a reading is the sensor's value."""

    def rendered(self, accept: int | None, reading: Reading) -> tuple[int, bytes] | None:
        """Return a reading, after the number of its format; None if it has no such form."""


@dataclass(slots=True)
class _Observed:
    """The observers of one sensor in one format."""

    accept: int | None
    exchanges: dict[int, RespondTo] = field(default_factory=dict)


class SensorAnswers:
    """Answers GETs of sensors that were read within their interval, and tells who observes them.

    All else is left to the resource: sensors that have no reading of late, and requests that are
    wrong. An actuator's state is at hand for a second (`sampler.ACTUATOR_S`).

    Args:
        served: the resources by sensor name; others add to it and take from it.
        sampler: has the readings.

    """

    def __init__(self, served: Mapping[str, ServedSensor], sampler: Sampler) -> None:
        self.segments = frozenset((PATH.encode(),))
        self._served = served
        self._sampler = sampler
        self._kept: dict[tuple[Option, ...], KeptResponse] = {}
        self._kept_of: dict[str, list[tuple[Option, ...]]] = {}
        self._observed: dict[str, dict[int | None, _Observed]] = {}
        self._of_exchange: dict[int, tuple[str, int | None]] = {}
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self._told = ToldInTurns(self._failed)

    def answer(self, request: CoapRequest, _peer: CoapPeer, now: float) -> CoapResponse | None:
        """Return the reading of a sensor that a GET names; None if the resource has to answer."""
        if request.code != codes.GET:
            return None
        kept = self._kept.get(request.options)
        if kept is not None and now < kept.until:
            return kept
        asked = _asked(request)
        if asked is None:
            return None
        name, accept = asked
        served = self._served.get(name)
        if served is None or (reading := self._sampler.at_hand(served.sensor)) is None:
            return None
        left_s = served.good_for_s(reading)
        response = _response(served, accept, reading, left_s)
        if response is None or left_s <= 0:
            return response
        # Right while its Max-Age is: until the next whole second that is left.
        kept = KeptResponse(response, now + left_s - (max_age_s(left_s) - 1))
        self._keep(request.options, name, kept)
        return kept

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Note an observer of a sensor; return False for a request of another resource."""
        asked = _asked(request)
        if asked is None or asked[0] not in self._served:
            return False
        name, accept = asked
        formats = self._observed.setdefault(name, {})
        formats.setdefault(accept, _Observed(accept)).exchanges[exchange] = respond
        self._of_exchange[exchange] = asked
        return True

    def ended(self, exchange: int) -> None:
        """Forget the observer, if the exchange has one."""
        self._told.forget(exchange)
        if (asked := self._of_exchange.pop(exchange, None)) is None:
            return
        name, accept = asked
        formats = self._observed[name]
        del formats[accept].exchanges[exchange]
        if not formats[accept].exchanges:
            del formats[accept]
        if not formats:
            del self._observed[name]

    def changed(self, name: str) -> None:
        """A sensor has a new reading: render it once for each format that somebody observes."""
        for options in self._kept_of.pop(name, ()):
            self._kept.pop(options).take_back()
        served, observed = self._served.get(name), self._observed.get(name)
        if served is None or observed is None:
            return
        reading = self._sampler.at_hand(served.sensor)
        if reading is None:
            return
        left_s = served.good_for_s(reading)
        for one in observed.values():
            response = _response(served, one.accept, reading, left_s)
            if response is None:
                continue
            for exchange, respond in one.exchanges.items():
                self._told.add(exchange, respond, response, is_last=False)
        self._told.go_on()

    def removed(self, name: str, response: CoapResponse) -> None:
        """A sensor is served no more: who observes it is told so.

        Args:
            name: the sensor's.
            response: what they are told.

        """
        self.changed(name)
        for one in self._observed.pop(name, {}).values():
            for exchange, respond in one.exchanges.items():
                del self._of_exchange[exchange]
                self._told.add(exchange, respond, response, is_last=True)
        self._told.go_on()

    def _failed(self, error: Exception, exchange: int) -> None:
        self._failures.failed("tell an observer of a sensor", error, str(exchange))

    def _keep(self, options: tuple[Option, ...], name: str, response: KeptResponse) -> None:
        """Keep a response, so that it can be taken back when the sensor has another reading."""
        if len(self._kept) >= KEPT_MAX:
            for kept in self._kept.values():
                kept.take_back()
            self._kept.clear()
            self._kept_of.clear()
        if options not in self._kept:
            self._kept_of.setdefault(name, []).append(options)
        self._kept[options] = response


def max_age_s(left_s: float) -> int:
    """Return a time that is left as the value of Max-Age."""
    return max(0, min(math.ceil(left_s), 0xFFFFFFFF))


def _asked(request: CoapRequest) -> tuple[str, int | None] | None:
    """Return the sensor's name and the format; None if there is anything that a resource has to
    judge."""
    segments: list[bytes] = []
    accept: int | None = None
    for number, value in request.options:
        if number == option_numbers.URI_PATH:
            segments.append(value)
        elif number == option_numbers.ACCEPT:
            accept = decode_uint(value)
            if accept not in FORMATS:
                return None
        elif number & 1:
            return None
    try:
        path, *name = [segment.decode() for segment in segments]
    except ValueError:  # no segment, or one that is no UTF-8
        return None
    # A slash inside a segment would make another path of it than the one that was decided on.
    if path != PATH or any("/" in part for part in name):
        return None
    return "/".join(name), accept


def _response(
    served: ServedSensor, accept: int | None, reading: Reading, left_s: float
) -> CoapResponse | None:
    rendered = served.rendered(accept, reading)
    if rendered is None:  # the resource says why
        return None
    form, payload = rendered
    options = (
        (option_numbers.CONTENT_FORMAT, encode_uint(form)),
        (option_numbers.MAX_AGE, encode_uint(max_age_s(left_s))),
    )
    return tagged(CoapResponse(codes.CONTENT, options, payload))
