"""From a core's name to a file: command line, Verilog, synthesis, reports."""
