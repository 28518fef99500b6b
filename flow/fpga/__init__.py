"""FPGA implementation: synthesis, place and route, from Verilog to resources and Fmax."""
