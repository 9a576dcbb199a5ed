"""Trust: keys, certificates, TLS, policy, and the share that each user gets."""
