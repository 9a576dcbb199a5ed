"""TLS of everything that this gateway listens and dials with."""
