"""RTL in Amaranth: one component a module, one module a core."""
