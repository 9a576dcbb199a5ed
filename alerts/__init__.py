"""Alerts: what is wrong with whom, who was told of it, and the ways on which it leaves the house.

The model is pure: `desk` makes alerts of what is seen, `outgoing` says which of them each way out
gets next, and `state` is all that is remembered, so that it survives a kill as a whole. Only
`ways` does I/O. Gateways and the ingest use the same records; who sees what is wrong is theirs.
"""
