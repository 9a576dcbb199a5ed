"""Resources of other gateways: asked, observed, gathered, and executed for others."""
