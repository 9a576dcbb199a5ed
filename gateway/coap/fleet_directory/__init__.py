"""Look-ups in the directories of many gateways, without I/O: who is asked, and what is told."""
