"""Policy files of any text: what is fuzzed, and seeds.

What must hold: a text is read, or refused with its faults by line; whatever it says, decisions are
made without an exception and can be written down; strangers write only where a rule is for
everybody or for them; and a principal for whom nobody vouches has no more than a stranger may get
by its kind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from gateway.trust.policy import policy_file
from gateway.trust.policy.action import Action, ActionPlace
from gateway.trust.policy.faults import AccessFileError
from gateway.trust.policy.findings import findings
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import STRANGER

HERE = ActionPlace("gw-a", "campus", "north")
_ACTIONS = tuple(
    Action.parse(text, HERE)
    for text in (
        *("publish a/b", "subscribe a/#", "deliver $SYS/x", "GET /sensors/valve"),
        *("PUT /sensors/valve", "POST /rd", "console /metrics", "drain", "membership"),
    )
)
_WRITES = tuple(action for action in _ACTIONS if action.verb in ("publish", "PUT", "drain"))
_WORDS = (
    *("version = 1\n", "[principals]\n", '"psk:a" = ["device"]\n', '"user:*" = ["operator"]\n'),
    *("[roles.own]\n", 'includes = ["reader"]\n', 'allow = ["PUT /sensors/%u", "publish #"]\n'),
    *('deny = ["write /#"]\n', "[[rules]]\n", 'who = ["own", "psk:a"]\n', 'at = ["campus/+"]\n'),
    *("[vouch]\n", '"*" = ["own"]\n', "[default]\n", 'subscribe = ["a/%c/#"]\n', "[users.a]\n"),
    *('conceal = ["b/#"]\n', "[roles.sensor]\n", 'publish = ["%u/#"]\n', '"stranger" = ["own"]\n'),
)


def policy(data: bytes) -> None:
    """Parse a text as a policy file, and ask the policy for decisions."""
    text = data.decode(errors="replace")
    try:
        told = policy_file.parse(text, "access.toml", frozenset({"reader"}))
    except AccessFileError as error:
        assert str(error)
        return
    assert all(str(one) for one in findings(told, "access.toml"))
    decides = Policy(told, HERE)
    named = [("psk", "a"), ("user", "a"), ("cert", "+/#"), ("local", ""), (STRANGER, "")]
    for kind, name in named:
        principal = decides.principal(kind, name)
        for action in _ACTIONS:
            assert str(decides.may(principal, action))
            assert str(decides.may(decides.vouched(principal, "gw-b"), action))
    if "stranger" not in text and "*" not in text and "default" not in text:
        stranger = decides.principal(STRANGER)
        assert not any(decides.may(stranger, action).is_allowed for action in _WRITES), text


def seeds() -> Iterator[bytes]:
    """Files of both kinds."""
    yield "".join(_WORDS[:4]).encode()
    yield "".join((*_WORDS[:3], *_WORDS[4:8], *_WORDS[8:13])).encode()
    yield "".join((*_WORDS[13:15], *_WORDS[15:17], *_WORDS[17:19])).encode()
    yield from (word.encode() for word in _WORDS)


def mutated(chance: random.Random) -> bytes:
    """A file of right pieces in any order, some spoilt."""
    pieces = [chance.choice(_WORDS) for _ in range(chance.randrange(1, 12))]
    made = bytearray("".join(("version = 1\n", *pieces)).encode())
    for _ in range(chance.randrange(3)):
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made)
