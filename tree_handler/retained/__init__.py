"""Retained messages: one version of each topic on every gateway."""
