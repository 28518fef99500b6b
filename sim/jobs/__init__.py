"""Whole jobs: what a host sends, and what must come back."""
