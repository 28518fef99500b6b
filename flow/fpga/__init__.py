"""From Verilog to resources and MHz: synthesis, place and route."""
