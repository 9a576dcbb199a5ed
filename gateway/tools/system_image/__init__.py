"""Builds an image of a whole system with two slots; of use on a builder's machine alone."""
