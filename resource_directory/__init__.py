"""A CoRE Resource Directory (RFC 9176): a pure registry, and a service that answers for it.

All but ``resources`` takes time and bytes as arguments and does no I/O: ``service`` answers a
request as ``exchange`` writes it, ``registry`` keeps what is registered, ``link_format`` reads and
writes links. ``resources`` puts the service on an aiocoap site.
"""
