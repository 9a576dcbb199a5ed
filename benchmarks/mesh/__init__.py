"""A mesh of real processes in network namespaces: how fast it heals, and what messages cost."""
