"""Releases that must not stay: what is changed in a checkout to make each."""

from __future__ import annotations

_SERVE = ("gateway/process/running/service.py", "    os.umask(PRIVATE)\n")
CRASHES = (_SERVE[0], (_SERVE[1], '    raise RuntimeError("this release crashes")\n'))
"""It ends as soon as it has begun."""
CRASHES_IN_THE_SOUTH = (
    _SERVE[0],
    (
        _SERVE[1],
        '    if settings.gateway.id == "gw-south":\n'
        '        raise RuntimeError("this release crashes here")\n' + _SERVE[1],
    ),
)
"""It is good on all gateways but one."""
IS_NEVER_HEALTHY = (
    _SERVE[0],
    (
        _SERVE[1],
        '    sd_notify.notify("READY=1")\n    await _until_any(asyncio.Event())\n' + _SERVE[1],
    ),
)
"""It says that it is ready, keeps the watchdog quiet, and does nothing."""
ANSWERS_NO_CLIENT = (
    "gateway/broker/inbound/admission.py",
    (
        '"""Decide on a CONNECT; the CONNACK may come later."""\n',
        '"""Decide on a CONNECT; the CONNACK never comes."""\n        return\n',
    ),
)
"""Its links, its status and its directory are as they were, and no client gets a CONNACK."""
READS_OTHER_STATE = (
    "gateway/process/state_folder/state_format.py",
    ("WRITTEN = 1", "WRITTEN = 2"),
    ("frozenset({1})", "frozenset({2})"),
)
"""It can't read what the release before has written."""
