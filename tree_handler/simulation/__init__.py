"""A network of gateways in virtual time that drives the production cores, and what it proves."""
