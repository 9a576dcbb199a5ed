"""MQTT 3.1.1 and 5.0, section 3.1: client identifiers."""

from __future__ import annotations

import string

import pytest
from raw_client import Broker
from raw_packets import V5, V311

LEVELS = (V311, V5)


@pytest.mark.statement_3_1_1("MQTT-3.1.3-5")
@pytest.mark.statement_5_0("MQTT-3.1.3-5")
@pytest.mark.parametrize(
    "name",
    ["Z", string.digits + "abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ"],
)
def test_client_identifiers_of_1_to_23_letters_and_digits_are_taken(
    broker: Broker, name: str
) -> None:
    broker.connect(name).ping()
