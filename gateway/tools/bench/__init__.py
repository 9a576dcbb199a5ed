"""Benchmark of this machine as a gateway: measured on one beside that which serves."""
