"""Command line, Verilog generation, synthesis, place and route, reports."""
