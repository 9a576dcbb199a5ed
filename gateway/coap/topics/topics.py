"""Topics below ``$coap``, and what each asks for (docs/mqtt-coap.md).

``$coap/<METHOD>/<gateway>/<path>?<query>``                       a request
``$coap/<METHOD>/q/<domain>/<group>/<gateway>/<path>?<query>``    the same, or many gateways
``$coap/observe/...``                                             what is observed
``$coap/answer/<client id>/<code>/<METHOD>/...``                  answers to 3.1.1 clients
"""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import Option
from gateway.coap.access import METHOD_NAMES
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.remote.forward_proxy import decoded
from light_dataclasses import dataclass

PREFIX: Final = "$coap/"
OBSERVE: Final = "observe"
ANSWER: Final = "answer"
_CODES: Final = {name: code for code, name in METHOD_NAMES.items()}
_OPTION_BYTES_MAX: Final = 255
_OPTIONS_MAX: Final = 64
"""Of one request; paths of gateways and devices have some ten."""


class CoapTopicError(ValueError):
    """A topic that asks for nothing.

    Args:
        why: for people.
        topic: the offending one.

    """

    def __init__(self, why: str, topic: str) -> None:
        super().__init__(f"{why}: {topic[:200]}")
        self.topic = topic


@dataclass(frozen=True, slots=True)
class CoapTarget:
    """The request that a topic names.

    Attributes:
        code: of the method.
        gateway: the id of the one that is asked; empty for a path that says where it leads.
        options: Uri-Path and Uri-Query.

    """

    code: int
    gateway: str
    options: tuple[Option, ...]


def target(topic: str) -> CoapTarget:
    """Read the topic of a request or an observation, which is a GET.

    Path and query are as in a URI: ``%3F`` stands for a question mark of a path, for instance.

    Raises:
        CoapTopicError: it is none.

    """
    method, slash, rest = topic.removeprefix(PREFIX).partition("/")
    code = codes.GET if method == OBSERVE else _CODES.get(method)
    if code is None or not slash:
        raise CoapTopicError(f"not {PREFIX}<METHOD>/<gateway>/<path>", topic)
    path, question, query = rest.partition("?")
    gateway, *segments = path.split("/")
    criteria = query.split("&") if question else []
    if not gateway:
        raise CoapTopicError("no gateway is named", topic)
    if gateway == QUERY_SEGMENT:
        gateway, segments = "", [QUERY_SEGMENT, *segments]
    if len(segments) + len(criteria) > _OPTIONS_MAX:
        raise CoapTopicError(f"more than {_OPTIONS_MAX} segments and criteria", topic)
    try:
        options = [(option_numbers.URI_PATH, decoded(one)) for one in segments]
        options += [(option_numbers.URI_QUERY, decoded(one)) for one in criteria]
    except ValueError:
        raise CoapTopicError("no two hexadecimal digits after a percent sign", topic) from None
    if any(len(value) > _OPTION_BYTES_MAX for _, value in options):
        raise CoapTopicError(f"a segment over {_OPTION_BYTES_MAX} bytes", topic)
    return CoapTarget(code, gateway, tuple(options))


def is_request(topic: str) -> bool:
    """Return whether a topic names a method, a gateway and what is asked of it."""
    try:
        target(topic)
    except CoapTopicError:
        return False
    return True


def answer_prefix(client_id: str) -> str:
    """Return what the topics of a client's own answers begin with; empty if its name could mislead.

    No identifier may reach into the answers of another one.
    """
    if not client_id or client_id[0] == "$" or set("/+#") & set(client_id):
        return ""
    return f"{PREFIX}{ANSWER}/{client_id}/"


def answer_topic(prefix: str, code: int, topic: str) -> str:
    """Return where the answer to a request goes whose client can't say so.

    Args:
        prefix: see `answer_prefix`.
        code: of the response.
        topic: of the request.

    """
    return f"{prefix}{code_text(code)}/{topic.removeprefix(PREFIX)}"


def code_text(code: int) -> str:
    """Return a code as people write it: 0x45 is ``2.05``."""
    return f"{code >> 5}.{code & 31:02d}"
