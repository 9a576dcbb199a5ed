"""Signatures of gateways: with the keys of their certificates, checked by the fleet's authority."""
