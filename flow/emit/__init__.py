"""Verilog generation: from a core's configuration to portable Verilog."""
