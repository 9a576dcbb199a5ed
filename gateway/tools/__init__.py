"""Tools that an operator starts: the command line, the demo, cards and provisioning."""
