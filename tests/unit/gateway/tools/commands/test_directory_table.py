"""`hedgerow rd` shows endpoints and resources, and how endpoints come, change and go."""

from __future__ import annotations

import pytest

from gateway.tools.commands import directory
from gateway.tools.commands.errors import WrongUseError
from resource_directory.link_format import WebLink

PUMP = WebLink(
    "/rd/7",
    (
        ("ep", "pump"),
        ("d", "campus"),
        ("base", "coap://10.0.0.7"),
        ("rt", "core.rd-ep"),
        ("lt", "90"),
    ),
)
LAMP = WebLink("/rd/8", (("ep", "l\n"), ("gp", "floor"), ("obs", None), ("note", "a\tb")))


def test_endpoints_are_a_table_and_what_has_no_column_stands_behind() -> None:
    assert directory.endpoints_table([PUMP, LAMP]).split("\n") == [
        "endpoint  domain  group  base             registration  other",
        "pump      campus  -      coap://10.0.0.7  /rd/7         lt=90",
        r"l\n       -       floor  -                /rd/8         obs note=a\tb",
        "2 registered",
    ]
    assert directory.endpoints_table([]).split("\n")[1:] == ["0 registered"]


def test_resources_are_a_table_with_their_type_and_interface() -> None:
    door = WebLink("coap://10.0.0.7/door", (("rt", "door"), ("if", "sensor"), ("obs", None)))
    assert directory.resources_table([door, WebLink("/x", (("rt", None),))]).split("\n") == [
        "resource              type  interface  other",
        "coap://10.0.0.7/door  door  sensor     obs",
        "/x                    -     -",
        "2 found",
    ]


def test_a_link_for_scripts_has_flags_as_true() -> None:
    assert directory.as_json(LAMP) == {
        "href": "/rd/8",
        "ep": "l\n",
        "gp": "floor",
        "obs": True,
        "note": "a\tb",
    }


def test_endpoints_that_went_are_told_first_then_those_that_changed_then_those_that_came() -> None:
    def links(*each: WebLink) -> dict[str, WebLink]:
        return {link.href: link for link in each}

    moved, new = WebLink("/rd/7", (("ep", "pump"),)), WebLink("/rd/9", (("ep", "new"),))
    told = directory.differences(links(PUMP, LAMP), links(new, moved))
    assert told == [("-", LAMP), ("~", moved), ("+", new)]
    assert directory.differences(links(PUMP), links(PUMP)) == []
    assert [directory.line(sign, link) for sign, link in [*told, ("+", PUMP)]] == [
        r"- l\n  -  /rd/8  gp=floor obs note=a\tb",
        "~ pump  -  /rd/7",
        "+ new  -  /rd/9",
        "+ pump  coap://10.0.0.7  /rd/7  d=campus lt=90",
    ]


def test_criteria_are_a_query_in_which_a_star_a_path_and_a_scheme_stand_as_they_are() -> None:
    assert directory.query([]) == ""
    assert directory.query(["rt=te*", "href=coap://a/b", "ep=a b&c"]) == (
        "rt=te*&href=coap://a/b&ep=a%20b%26c"
    )


@pytest.mark.parametrize("criterion", ["rt", "=x", "", "="])
def test_a_criterion_is_a_name_and_a_value(criterion: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        directory.query(["ep=a", criterion])
    assert str(refused.value) == f"{criterion!r}: NAME=VALUE is needed, as in rt=temperature"
    assert directory.query(["ep="]) == "ep="


@pytest.mark.parametrize("criterion", ["rt", "=x", "", "="])
def test_a_criterion_that_names_nothing_or_has_no_value_is_refused(criterion: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        directory.query(["ep=a", criterion])
    assert str(refused.value) == f"{criterion!r}: NAME=VALUE is needed, as in rt=temperature"
    assert directory.query(["ep=a b", "rt=c*", "if="]) == "ep=a%20b&rt=c*&if="


def test_what_came_went_and_changed_is_told_and_what_stayed_is_not() -> None:
    old = {href: WebLink(href, (("ep", href),)) for href in ("/a", "/b", "/c")}
    new = {
        "/b": WebLink("/b", (("ep", "/b"),)),
        "/c": WebLink("/c", (("ep", "other"),)),
        "/d": WebLink("/d", ()),
    }
    assert directory.differences(old, new) == [
        ("-", old["/a"]),
        ("~", new["/c"]),
        ("+", new["/d"]),
    ]
    assert directory.differences(old, old) == []
