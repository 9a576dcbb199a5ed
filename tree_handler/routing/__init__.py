"""Who wants what, where everybody is, and routed mode (C4)."""
