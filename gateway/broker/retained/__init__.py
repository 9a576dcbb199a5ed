"""Retained messages: what is kept, in which version, and how a new subscriber gets it."""
