"""Records that a gateway writes and the cloud reads: telemetry, and the status of a gateway.

Both sides read and write them by these modules alone, so that each knows the format, and neither
imports the other for it.
"""
