"""Certificates, keys and revocation lists in files, and when they end."""
