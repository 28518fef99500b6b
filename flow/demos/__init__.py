"""Demonstrations: the papers' jobs on real data."""
