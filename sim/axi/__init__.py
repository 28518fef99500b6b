"""Benches of AXI wrappers, with another project's models of the buses."""
