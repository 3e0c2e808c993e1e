"""Notebooks executed and turned into pages that open offline."""
