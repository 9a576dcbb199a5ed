"""Handbook of the command line: the page of commands, and its manual pages."""
