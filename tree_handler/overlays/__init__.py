"""Topic mode (C5, C6): a spanning tree for each set of gateways that share topics."""
