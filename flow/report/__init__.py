"""Measurements, and the report that is drawn from them."""
