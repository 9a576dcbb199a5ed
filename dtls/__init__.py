"""DTLS 1.2 (RFC 6347) with pre-shared keys (RFC 4279), and CoAP over it (RFC 7252, section 9).

`session`, `endpoint` and what they use are sans-I/O: datagrams and a time in seconds go in,
datagrams and events come out. Sockets and the event loop live in `datagrams`, `transport` and
`client_transport` alone.
"""
