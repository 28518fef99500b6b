"""RTL in Amaranth: one component per module. A core's module has the core's name."""
