"""Whole jobs on real data, as the papers have them."""
