"""Measurements, and the report that is made from them."""
