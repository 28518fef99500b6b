"""The registry: the cores by families, and what is measured of each."""
