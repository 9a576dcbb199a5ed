"""Libraries that are no part of every gateway: a driver that needs one says which extra has it."""

from __future__ import annotations

import importlib.util

from gateway.sensors.options import SensorOptions


def needed(options: SensorOptions, module: str, extra: str) -> None:
    """Check that a library is installed, without loading it.

    Args:
        options: of the sensor that needs it.
        module: its name.
        extra: which extra of this package installs it.

    Raises:
        SensorConfigError: it is not.

    """
    if importlib.util.find_spec(module) is None:
        by_pip = f"pip install 'hedgerow[{extra}]'"
        by_apt = f"with the Debian package, apt-get install python3-{module}"
        why = f"needs {module}, which is not installed: {by_pip}; {by_apt}"
        raise options.error("type", why)
