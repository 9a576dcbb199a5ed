"""Whatever happens to ten gateways, what was acknowledged arrives everywhere: once, in order.

`--seed` says what happens, `--chaos-s` for how long in each mode of the tree; `--soak` makes it one
hour in all, twenty minutes in each mode. Both go through all modes, or through the one of
`--chaos-mode`, to which `--soak` gives the whole hour. Without them it is 25 seconds of flood.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos import Chaos

from gateway.process.configuration.config import MODES

SOAK_S = 3600.0
"""Over all modes that it goes through."""


def modes(config: pytest.Config) -> tuple[str, ...]:
    chosen: str | None = config.getoption("--chaos-mode")
    if chosen is not None:
        return (chosen,)
    is_long = config.getoption("--soak") or config.getoption("--chaos-s")
    return MODES if is_long else MODES[:1]


def seconds(config: pytest.Config) -> float:
    given: float | None = config.getoption("--chaos-s")
    if given is not None:
        return given
    return SOAK_S / len(modes(config)) if config.getoption("--soak") else 25.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("mode", modes(metafunc.config))


@pytest.mark.timeout(0)
async def test_nothing_is_lost_doubled_or_out_of_order_in_chaos(
    mode: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed: int = request.config.getoption("--seed")
    chaos = Chaos(tmp_path, seed, seconds(request.config), mode)
    try:
        await chaos.run()
        told = f"{chaos.acknowledged} messages acknowledged, {chaos.delivered} deliveries"
        print(f"{told}; {dict(chaos.faults)}")
        assert chaos.acknowledged > 100
        assert sum(chaos.faults.values()) > 5
        assert not chaos.died, "\n".join(chaos.died)
        assert not chaos.lost, "\n".join(chaos.lost[:20])
        found = (chaos.doubled, chaos.disordered, chaos.overtaken)
        assert found == (0, 0, 0), "\n".join(chaos.examples)
        assert not chaos.lost_sessions, chaos.lost_sessions
    except BaseException:
        print(f"seed {seed}; logs and events.log are in {tmp_path}")
        raise
