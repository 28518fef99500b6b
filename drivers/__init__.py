"""Drivers in C for the boards and the cores with AXI ports, and for PYNQ."""
