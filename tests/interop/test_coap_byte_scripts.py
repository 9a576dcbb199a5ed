"""The RFCs' example exchanges, datagram by datagram, against a gateway's process.

Names that only the example has (``/temperature``) are those of this gateway here (``/sensors/valve``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from coap_gateway import CoapGateway
from coap_script import Conversation

Dial = Callable[..., Conversation]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoapGateway]:
    made = CoapGateway(tmp_path_factory.mktemp("gateway"))
    yield made
    made.stop()


@pytest.fixture
def dial(gateway: CoapGateway) -> Iterator[Dial]:
    made: list[Conversation] = []

    def one(host: str = "127.0.0.1") -> Conversation:
        made.append(Conversation(gateway.port, host))
        return made[-1]

    yield one
    for conversation in made:
        conversation.close()


# -- RFC 7252: messages --------------------------------------------------------------------------------


def test_rfc7252_a_figure_16_a_confirmable_request_and_its_piggybacked_response(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 7d34 - Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 7d34 - ETag:* Content-Format:0 Max-Age:* | 0.0
        """
    )


def test_rfc7252_a_figure_17_the_response_has_the_requests_token(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 7d35 20 Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 7d35 20 ETag:* Content-Format:0 Max-Age:* | 0.0
        """
    )


def test_rfc7252_a_figures_18_and_19_a_repeated_request_gets_the_same_response(dial: Dial) -> None:
    """One figure loses the request, the other the response: to the server both are one more."""
    dial().play(
        """
        > CON POST 7d36 31 Uri-Path:rd Uri-Query:ep=twice Content-Format:40 | </a>
        < ACK 2.01 7d36 31 Location-Path:rd Location-Path:{place}
        > CON POST 7d36 31 Uri-Path:rd Uri-Query:ep=twice Content-Format:40 | </a>
        < ACK 2.01 7d36 31 Location-Path:rd Location-Path:{place}
        > CON DELETE 7d37 32 Uri-Path:rd Uri-Path:{place}
        < ACK 2.02 7d37 32
        > CON DELETE 7d37 32 Uri-Path:rd Uri-Path:{place}
        < ACK 2.02 7d37 32
        > CON DELETE 7d38 33 Uri-Path:rd Uri-Path:{place}
        < ACK 4.04 7d38 33 | no registration: ...
        """
    )


def test_rfc7252_a_figure_22_a_non_confirmable_request_gets_such_a_response(dial: Dial) -> None:
    dial().play(
        """
        > NON GET 7d40 75 Uri-Path:sensors Uri-Path:valve Accept:0
        < NON 2.05 * 75 ETag:* Content-Format:0 Max-Age:* | 0.0
        """
    )


def test_rfc7252_4_3_a_ping_is_answered_by_a_reset(dial: Dial) -> None:
    dial().play(
        """
        > CON 0.00 0001 -
        < RST 0.00 0001 -
        """
    )


def test_rfc7252_4_3_what_is_no_request_and_fits_nothing_is_reset_or_ignored(dial: Dial) -> None:
    dial().play(
        """
        > CON 2.05 0002 99 | unasked
        < RST 0.00 0002 -
        > NON 2.05 0003 99 | unasked
        > ACK 0.00 0004 -
        <-
        """
    )


def test_rfc7252_5_4_1_a_critical_option_that_is_not_understood(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 0010 21 Uri-Path:sensors Uri-Path:valve Unknown-Critical:01
        < ACK 4.02 0010 21 | option 2049 is not understood
        > NON GET 0011 22 Uri-Path:sensors Uri-Path:valve Unknown-Critical:01
        <-
        """
    )


def test_rfc7252_5_10_6_and_8_what_a_client_has_is_valid_and_what_it_takes_for_true_is_judged(
    dial: Dial,
) -> None:
    conversation = dial()
    conversation.play(
        """
        > CON GET 0101 31 Uri-Path:sensors Uri-Path:valve
        < ACK 2.05 0101 31 ETag:{tag} Content-Format:110 Max-Age:* | ...
        > CON GET 0102 32 Uri-Path:sensors Uri-Path:valve ETag:{tag}
        < ACK 2.03 0102 32 ETag:{tag} Max-Age:*
        > CON PUT 0103 33 Uri-Path:sensors Uri-Path:valve If-Match:{tag} | 1
        < ACK 2.04 0103 33
        > CON PUT 0104 34 Uri-Path:sensors Uri-Path:valve If-Match:{tag} | 0
        < ACK 4.12 0104 34 | the resource is another ...
        > CON PUT 0105 35 Uri-Path:sensors Uri-Path:valve If-None-Match | 0
        < ACK 4.12 0105 35 | the resource is another ...
        > CON GET 0106 36 Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 0106 36 ETag:* Content-Format:0 Max-Age:* | 1.0
        > CON PUT 0107 37 Uri-Path:sensors Uri-Path:valve | 0
        < ACK 2.04 0107 37
        > CON GET 0108 38 Uri-Path:.well-known Uri-Path:core
        < ACK 2.05 0108 38 ETag:{links} Content-Format:40 ...
        > CON GET 0109 39 Uri-Path:.well-known Uri-Path:core ETag:{links}
        < ACK 2.03 0109 39 ETag:{links}
        """
    )


def test_rfc7252_5_10_4_a_format_that_is_not_there_is_not_acceptable(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 0012 23 Uri-Path:rd-lookup Uri-Path:ep Accept:41
        < ACK 4.06 0012 23 | ...
        """
    )


# -- RFC 7641: Observe ---------------------------------------------------------------------------------


def test_rfc7641_a_1_an_observation_its_notifications_and_its_end(dial: Dial) -> None:
    observer, other = dial(), dial()
    observer.play(
        """
        > CON GET 1633 4a Observe:0 Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 1633 4a ETag:* Observe:* Content-Format:0 Max-Age:* | 0.0
        """
    )
    other.play(
        """
        > CON PUT 0001 01 Uri-Path:sensors Uri-Path:valve Content-Format:0 | 1
        < ACK 2.04 0001 01
        """
    )
    observer.play("< NON 2.05 * 4a ETag:* Observe:{next} Content-Format:0 Max-Age:* | 1.0")
    other.play(
        """
        > CON PUT 0002 02 Uri-Path:sensors Uri-Path:valve Content-Format:0 | 0
        < ACK 2.04 0002 02
        """
    )
    before = int(observer.named["next"])
    observer.named.clear()
    observer.play("< NON 2.05 * 4a ETag:* Observe:{next} Content-Format:0 Max-Age:* | 0.0")
    assert 0 < (int(observer.named["next"]) - before) % (1 << 24) < 1 << 23  # section 3.4
    observer.play(
        """
        > CON GET 1634 4a Observe:1 Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 1634 4a ETag:* Content-Format:0 Max-Age:* | 0.0
        """
    )
    other.play(
        """
        > CON PUT 0003 03 Uri-Path:sensors Uri-Path:valve Content-Format:0 | 0
        < ACK 2.04 0003 03
        """
    )
    observer.play("<-")


def test_rfc7641_3_6_a_reset_of_a_notification_ends_the_observation(dial: Dial) -> None:
    observer, other = dial(), dial()
    observer.play(
        """
        > CON GET 0101 5b Observe:0 Uri-Path:rd-lookup Uri-Path:ep Uri-Query:et=reset
        < ACK 2.05 0101 5b ETag:* Observe:* Content-Format:40
        """
    )
    other.play(
        """
        > CON POST 0001 01 Uri-Path:rd Uri-Query:ep=r1 Uri-Query:et=reset Content-Format:40 | </a>
        < ACK 2.01 0001 01 Location-Path:rd Location-Path:{place}
        """
    )
    observer.play(
        '< NON 2.05 {number} 5b ETag:* Observe:* Content-Format:40 | </rd/...>;ep="r1";...'
    )
    observer.play("> RST 0.00 {number} -")
    other.play(
        """
        > CON DELETE 0002 02 Uri-Path:rd Uri-Path:{place}
        < ACK 2.02 0002 02
        """
    )
    observer.play("<-")


# -- RFC 7959: blocks ----------------------------------------------------------------------------------


def test_rfc7959_3_1_figures_2_and_3_a_response_in_blocks_of_the_size_that_is_asked_for(
    dial: Dial,
) -> None:
    dial().play(
        """
        > CON POST 0001 01 Uri-Path:rd Uri-Query:ep=b Uri-Query:base=coap://h Content-Format:40 | </a1>;title="abcdefghi",</a2>;title="abcdefghi"
        < ACK 2.01 0001 01 Location-Path:rd Location-Path:{place}
        > CON GET 04d2 0a Uri-Path:rd Uri-Path:{place} Block2:0/0/32
        < ACK 2.05 04d2 0a ETag:{tag} Content-Format:40 Block2:0/1/32 Size2:47 | </a1>;title="abcdefghi",</a2>;ti
        > CON GET 04d3 0b Uri-Path:rd Uri-Path:{place} Block2:1/0/32
        < ACK 2.05 04d3 0b ETag:{tag} Content-Format:40 Block2:1/0/32 | tle="abcdefghi"
        > CON GET 04d4 0c Uri-Path:rd Uri-Path:{place} Block2:2/0/16
        < ACK 2.05 04d4 0c ETag:{tag} Content-Format:40 Block2:2/0/16 | tle="abcdefghi"
        > CON DELETE 0002 02 Uri-Path:rd Uri-Path:{place}
        < ACK 2.02 0002 02
        """
    )


def test_rfc7959_3_2_figure_7_a_request_in_blocks(dial: Dial) -> None:
    dial().play(
        """
        > CON POST 04d2 2a Uri-Path:rd Uri-Query:ep=in-blocks Uri-Query:base=coap://h Content-Format:40 Block1:0/1/16 | </a>;rt=one,</b>
        < ACK 2.31 04d2 2a Block1:0/1/16
        > CON POST 04d3 2b Uri-Path:rd Uri-Query:ep=in-blocks Uri-Query:base=coap://h Content-Format:40 Block1:1/0/16 | ;rt=two
        < ACK 2.01 04d3 2b Location-Path:rd Location-Path:{place} Block1:1/0/16
        > CON GET 04d4 2c Uri-Path:rd Uri-Path:{place}
        < ACK 2.05 04d4 2c ETag:* Content-Format:40 | </a>;rt="one",</b>;rt="two"
        > CON DELETE 04d5 2d Uri-Path:rd Uri-Path:{place}
        < ACK 2.02 04d5 2d
        """
    )


def test_rfc7959_2_9_2_a_block_without_those_before_it_is_incomplete(dial: Dial) -> None:
    dial().play(
        """
        > CON POST 0001 2e Uri-Path:rd Uri-Query:ep=torn Content-Format:40 Block1:1/0/16 | ;rt=two
        < ACK 4.08 0001 2e
        """
    )


# -- RFC 7967, RFC 8516, RFC 9175 ----------------------------------------------------------------------


def test_rfc7967_2_1_a_client_that_wants_no_response_gets_none(dial: Dial) -> None:
    dial().play(
        """
        > NON PUT 0001 53 Uri-Path:sensors Uri-Path:valve Content-Format:0 No-Response:26 | 0
        <-
        > NON PUT 0002 54 Uri-Path:sensors Uri-Path:nowhere Content-Format:0 No-Response:2 | 0
        < NON 4.04 * 54
        """
    )


def test_rfc9175_2_3_a_request_is_carried_out_when_its_sender_is_proven_to_be_there(
    dial: Dial,
) -> None:
    stranger = dial("127.0.0.9")
    stranger.play(
        """
        > CON PUT 0001 41 Uri-Path:sensors Uri-Path:valve Content-Format:0 | 1
        < ACK 4.01 0001 41 Echo:{echo}
        """
    )
    dial().play(
        """
        > CON GET 0001 42 Uri-Path:sensors Uri-Path:valve Accept:0
        < ACK 2.05 0001 42 ETag:* Content-Format:0 Max-Age:* | 0.0
        """
    )
    stranger.play(
        """
        > CON PUT 0002 42 Uri-Path:sensors Uri-Path:valve Content-Format:0 Echo:{echo} | 1
        < ACK 2.04 0002 42
        > CON PUT 0003 43 Uri-Path:sensors Uri-Path:valve Content-Format:0 Echo:{echo} | 0
        < ACK 2.04 0003 43
        """
    )


# -- RFC 9176: the directory ---------------------------------------------------------------------------


def test_rfc9176_4_3_discovery(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 0001 01 Uri-Path:.well-known Uri-Path:core Uri-Query:rt=core.rd*
        < ACK 2.05 0001 01 ETag:* Content-Format:40 | </rd>;rt="core.rd";ct="40",</rd-lookup/res>;rt="core.rd-lookup-res";ct="40"...,</rd-lookup/ep>;rt="core.rd-lookup-ep";ct="40"...
        """
    )


def test_rfc9176_5_and_5_3_registration_update_reading_and_removal(dial: Dial) -> None:
    client = dial()
    client.play(
        """
        > CON POST 0001 01 Uri-Path:rd Uri-Query:ep=node1 Content-Format:40 | </sensors/temp>;rt=temperature-c;if=sensor,<http://www.example.com/sensors/temp>;anchor="/sensors/temp";rel=describedby
        < ACK 2.01 0001 01 Location-Path:rd Location-Path:{place}
        > CON POST 0002 02 Uri-Path:rd Uri-Path:{place} Uri-Query:lt=600
        < ACK 2.04 0002 02
        > CON GET 0003 03 Uri-Path:rd-lookup Uri-Path:ep Uri-Query:ep=node1 Uri-Query:lt=600
        """
    )
    base = f"coap://127.0.0.1:{client.own_port}"
    client.play(
        f"""
        < ACK 2.05 0003 03 ETag:* Content-Format:40 | </rd/{{place}}>;ep="node1";base="{base}";rt="core.rd-ep"
        > CON GET 0004 04 Uri-Path:rd Uri-Path:{{place}}
        < ACK 2.05 0004 04 ETag:* Content-Format:40 | </sensors/temp>;rt="temperature-c";if="sensor",<http://www.example.com/sensors/temp>;anchor="/sensors/temp";rel="describedby"
        > CON DELETE 0005 05 Uri-Path:rd Uri-Path:{{place}}
        < ACK 2.02 0005 05
        """
    )


def test_rfc9176_5_1_simple_registration(dial: Dial) -> None:
    """Figure 8: the directory asks for the links before it answers."""
    device = dial()
    device.play(
        """
        > CON POST 0001 01 Uri-Path:.well-known Uri-Path:rd Uri-Query:lt=6000 Uri-Query:ep=simple
        < CON 0.01 {number} {token} Uri-Path:.well-known Uri-Path:core Accept:40...
        """
    )
    device.play("> ACK 2.05 {number} {token} Content-Format:40 | </sen/temp>;rt=simple-temp")
    device.play(
        """
        < ACK 2.04 0001 01
        > CON GET 0002 02 Uri-Path:rd-lookup Uri-Path:res Uri-Query:rt=simple-temp
        < ACK 2.05 0002 02 ETag:* Content-Format:40 | <coap://127.0.0.1:.../sen/temp>;rt="simple-temp"
        """
    )


def test_rfc9176_6_3_look_ups_by_type_in_pages_and_by_endpoint(dial: Dial) -> None:
    links = ",".join(f"</res/{n}>;ct=60;rt=paged" for n in range(7))
    dial().play(
        f"""
        > CON POST 0001 01 Uri-Path:rd Uri-Query:ep=pages Uri-Query:base=coap://p Uri-Query:et=tag:example.org,2020:p Content-Format:40 | {links}
        < ACK 2.01 0001 01 Location-Path:rd Location-Path:{{place}}
        > CON GET 0002 02 Uri-Path:rd-lookup Uri-Path:res Uri-Query:rt=paged Uri-Query:page=0 Uri-Query:count=2
        < ACK 2.05 0002 02 ETag:* Content-Format:40 | <coap://p/res/0>;ct=60;rt="paged",<coap://p/res/1>;ct=60;rt="paged"
        > CON GET 0003 03 Uri-Path:rd-lookup Uri-Path:res Uri-Query:rt=paged Uri-Query:page=3 Uri-Query:count=2
        < ACK 2.05 0003 03 ETag:* Content-Format:40 | <coap://p/res/6>;ct=60;rt="paged"
        > CON GET 0004 04 Uri-Path:rd-lookup Uri-Path:res Uri-Query:rt=paged Uri-Query:href=coap://p/res/3
        < ACK 2.05 0004 04 ETag:* Content-Format:40 | <coap://p/res/3>;ct=60;rt="paged"
        > CON GET 0005 05 Uri-Path:rd-lookup Uri-Path:ep Uri-Query:et=tag:example.org,2020:p
        < ACK 2.05 0005 05 ETag:{{tag}} Content-Format:40 | </rd/{{place}}>;ep="pages";base="coap://p";et="tag:example.org,2020:p";rt="core.rd-ep"
        > CON GET 0006 06 ETag:{{tag}} Uri-Path:rd-lookup Uri-Path:ep Uri-Query:et=tag:example.org,2020:p
        < ACK 2.03 0006 06 ETag:{{tag}}
        > CON DELETE 0007 07 Uri-Path:rd Uri-Path:{{place}}
        < ACK 2.02 0007 07
        """
    )


def test_rfc9176_6_2_a_look_up_that_finds_nothing_is_an_empty_list(dial: Dial) -> None:
    dial().play(
        """
        > CON GET 0001 01 Uri-Path:rd-lookup Uri-Path:res Uri-Query:rt=nothing-of-it
        < ACK 2.05 0001 01 ETag:* Content-Format:40
        """
    )
