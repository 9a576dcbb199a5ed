"""A CoRE Resource Directory (RFC 9176): a pure registry, and its CoAP interfaces.

``link_format``, ``registry``, ``expiry`` and what they use take time and bytes as arguments and do
no I/O; ``resources`` and ``lookups`` put them on an aiocoap site.
"""
