"""Which release a Pi runs, and its way back: needs Python alone, and no release that works."""
