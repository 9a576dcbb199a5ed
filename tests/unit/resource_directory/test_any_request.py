"""Any request at all is answered, and what is answered as links can be read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from resource_directory import exchange
from resource_directory.exchange import LINK_FORMAT, DirectoryRequest, Fetch, SlowLookUp
from resource_directory.link_format import LinkFormatError, WebLink, parse, serialise
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches

PATHS = [("rd",), ("rd", "1"), ("rd-lookup", "res"), ("rd-lookup", "ep"), (".well-known", "rd")]
texts = st.text(max_size=8) | st.text(alphabet='</>;,="\\*a \t\n\ud800é', max_size=12)
names = st.sampled_from(["ep", "d", "lt", "base", "gp", "rt", "href", "page", "count"]) | texts
values = st.sampled_from(["a", "a*", "1", "-1", "coap://h", "coap://[::1]:5", "//", "*"]) | texts
queries = st.lists(st.builds("{}={}".format, names, values) | texts, max_size=4).map(tuple)
payloads = (
    st.binary(max_size=30)
    | texts.map(lambda text: text.encode(errors="surrogatepass"))
    | st.sampled_from([b"", b"</a>", b'</a>;rt="x y";obs,<//h/b>;anchor="/c"', b"<a?b#c>;title*=u"])
)
requests = st.builds(
    DirectoryRequest,
    st.integers(0, 8),
    st.sampled_from(PATHS) | st.lists(texts, max_size=3).map(tuple),
    queries,
    payloads,
    st.sampled_from([None, 40, 0]),
    st.sampled_from([None, 40, 50]),
    st.lists(st.binary(max_size=8), max_size=2).map(tuple),
    st.sampled_from([None, "psk:a"]),
    st.sampled_from([None, "coap://[2001:db8::1]:5683", "coap://[fe80::1%eth0]", "x"]),
)


@settings(max_examples=80, deadline=None)
@given(asked=st.lists(requests, max_size=12), fetched=payloads)
def test_any_requests_are_answered(asked: list[DirectoryRequest], fetched: bytes) -> None:
    watches = Watches()
    service = DirectoryService(Registry(listeners=(watches,)), watches)
    for now, request in enumerate(asked):
        service.watch(request)
        answer = service.answer(request, float(now))
        if isinstance(answer, Fetch):
            answer = service.fetched(answer.key, fetched, float(now))
        while isinstance(answer, SlowLookUp):
            answer = service.go_on(answer) or answer
        if answer.code == exchange.CONTENT:
            assert answer.content_format == LINK_FORMAT
            assert serialise(parse(answer.payload)).encode() == answer.payload
        else:
            answer.payload.decode()
        service.take_changed()


links = st.builds(
    WebLink,
    texts,
    st.lists(
        st.tuples(
            st.sampled_from(["rt", "title", "title*", "sz", "obs", "rel", "hreflang"]) | texts,
            st.none() | texts,
        ),
        max_size=3,
    ).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(links, max_size=3))
def test_what_can_be_written_is_read_as_it_was(written: list[WebLink]) -> None:
    try:
        text = serialise(written)
    except LinkFormatError:
        return
    read = parse(text.encode())
    assert [link.href for link in read] == [link.href for link in written]
    assert serialise(read) == serialise(parse(serialise(read)))
