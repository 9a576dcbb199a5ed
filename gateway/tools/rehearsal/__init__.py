"""A gateway's backup starts in a scratch folder, alone, so that it is known whether it would serve.

It meets nobody: it listens at loopback addresses, dials nobody, has no sensors and runs no code
that the backup brings. It is another process (``python -m gateway.tools.rehearsal``), which may
hang or die.
"""
