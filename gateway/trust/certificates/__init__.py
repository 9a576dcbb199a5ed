"""A fleet's own authority, and the certificates of its gateways, in PEM files of one folder."""
