"""Directories and requests of a simulated fleet, over the classes that run in production."""
