"""CoRE Link Format: what RFC 6690 writes is read, what it forbids is named with its position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_directory.link_format import LinkFormatError, WebLink, parse, serialise

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABZ0189!#$&+-.^_`|~", min_size=1, max_size=10)
VALUES = st.one_of(
    st.none(),
    st.text(
        st.characters(exclude_categories=["Cc", "Cs"], include_characters='",;<>\\\t'), max_size=20
    ),
)
TARGETS = st.text(
    st.characters(codec="ascii", exclude_categories=["Cc", "Zs"], exclude_characters='<>"'),
    max_size=30,
)
LINKS = st.builds(
    WebLink,
    TARGETS,
    st.lists(
        st.tuples(st.one_of(NAMES, st.sampled_from(["sz", "title*", "ct"])), VALUES),
        max_size=6,
        unique_by=lambda a: a[0],
    ).map(tuple),
)


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("", []),
        ("</a>", [WebLink("/a")]),
        (
            '</sensors/temp>;rt="temperature-c";if="sensor"',
            [WebLink("/sensors/temp", (("rt", "temperature-c"), ("if", "sensor")))],
        ),
        (
            "</a>;ct=40;obs,<coap://[2001:db8::1]:61616/b,c;d>;sz=17",
            [
                WebLink("/a", (("ct", "40"), ("obs", None))),
                WebLink("coap://[2001:db8::1]:61616/b,c;d", (("sz", "17"),)),
            ],
        ),
        (
            r'</a>;title="a \"b\", \\c; <d>",</e>;rt="light-lux core.sen-light"',
            [
                WebLink("/a", (("title", 'a "b", \\c; <d>'),)),
                WebLink("/e", (("rt", "light-lux core.sen-light"),)),
            ],
        ),
        (
            "</a>;title*=UTF-8''%c2%a3%20rates;x=a=b",
            [WebLink("/a", (("title*", "UTF-8''%c2%a3%20rates"), ("x", "a=b")))],
        ),
        ('</a> ; rt="x" ,\r\n </b>', [WebLink("/a", (("rt", "x"),)), WebLink("/b")]),
        (
            '</a>;rt="first";rt="second";x=1;x=2',
            [
                WebLink("/a", (("rt", "first"), ("x", "1"), ("x", "2"))),
            ],
        ),
        ('<>;x=""', [WebLink("", (("x", ""),))]),
    ],
)
def test_links_are_read_as_rfc_6690_means_them(text: str, links: list[WebLink]) -> None:
    assert parse(text) == links
    assert parse(text.encode()) == links


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("a", 0, "'<' expected"),
        ("</a", 3, "'>' expected"),
        ("</a>x", 4, "',' or ';' expected"),
        ("</a>,", 5, "a link expected"),
        ("</a>;", 5, "an attribute's name expected"),
        ("</a>;rt=", 8, "an attribute's value expected"),
        ("</a>;rt=,</b>", 8, "an attribute's value expected"),
        ('</a>;rt="b', 10, "'\"' expected"),
        ('</a>;rt="b\\"', 12, "'\"' expected"),
        ('</a>;rt="b"c', 11, "',' or ';' expected"),
        ('</a>;rt="\n"', 8, "a control character"),
        ("</a b>", 1, "a URI reference expected"),
        ("</a>,</b>,<c", 12, "'>' expected"),
        ("</a>;=x", 5, "an attribute's name expected"),
    ],
)
def test_what_is_no_link_format_is_refused_with_its_position(
    text: str, position: int, what: str
) -> None:
    with pytest.raises(LinkFormatError) as raised:
        parse(text)
    assert raised.value.position == position
    assert raised.value.what.startswith(what)


def test_bytes_that_are_not_utf_8_are_refused_with_their_position() -> None:
    with pytest.raises(LinkFormatError, match="position 2: not UTF-8"):
        parse(b"</\xff>")


def test_limits_are_refused_by_name() -> None:
    with pytest.raises(LinkFormatError, match="more than 2 links"):
        parse("</a>,</b>,</c>", max_links=2)
    with pytest.raises(LinkFormatError, match="more than 1 attributes"):
        parse("</a>;b;c", max_attributes=1)
    with pytest.raises(LinkFormatError, match="longer than 3 bytes"):
        parse("</a>", max_bytes=3)


@pytest.mark.parametrize(
    "link",
    [
        WebLink("/a>b"),
        WebLink("/a", (("r t", "x"),)),
        WebLink("/a", (("", "x"),)),
        WebLink("/a", (("rt", "\x00"),)),
    ],
)
def test_a_link_that_can_not_be_written_is_refused(link: WebLink) -> None:
    with pytest.raises(LinkFormatError):
        serialise([link])


@given(st.lists(LINKS, max_size=6))
def test_what_is_written_is_read_back(links: list[WebLink]) -> None:
    assert parse(serialise(links)) == links


@given(st.one_of(st.text('<>;,="\\ /arst', max_size=40), st.text(max_size=40)))
def test_any_text_is_links_or_an_error_with_a_position_inside_it(text: str) -> None:
    try:
        links = parse(text)
    except LinkFormatError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert parse(serialise(links)) == links


@given(st.binary(max_size=40))
def test_any_bytes_are_links_or_an_error(payload: bytes) -> None:
    try:
        parse(payload)
    except LinkFormatError:
        return


@given(st.lists(LINKS, max_size=5), st.sampled_from([",", " , ", ",\t"]))
def test_what_was_read_before_changes_nothing(links: list[WebLink], between: str) -> None:
    text = between.join(map(str, links))
    first = parse(text)
    assert parse(text) == first
    assert parse(text + between + "</last>" if text else "</last>")[:-1] == first


@pytest.mark.parametrize("value", ["a,<b>", "a,<b>;c=d", '\\",<', ",<,<"])
def test_what_looks_like_a_link_in_a_value_is_none(value: str) -> None:
    links = [WebLink("/a", (("title", value), ("rt", "x"))), WebLink("/b", (("rt", "y"),))]
    for _ in range(2):
        assert parse(serialise([*links, *links])) == [*links, *links]
    with pytest.raises(LinkFormatError):
        parse('</a>;title="a,</b>;rt=y')


def test_more_attributes_than_may_be_are_refused_though_they_were_read_before() -> None:
    text = "</a>;b=c;d=e,</f>"
    assert len(parse(text)) == 2
    with pytest.raises(LinkFormatError):
        parse(text, max_attributes=1)


def test_links_are_the_same_that_say_the_same() -> None:
    link = WebLink("/t", (("rt", "x"),))
    others = [WebLink("/u", (("rt", "x"),)), WebLink("/t", (("rt", "y"),)), WebLink("/t")]
    assert link not in others
    assert link != "</t>;rt=x"
    assert len({link, WebLink("/t", (("rt", "x"),)), *others}) == 4
