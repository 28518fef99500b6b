"""From a core's configuration to Verilog that other tools read."""
