"""Drivers in C for the boards and for the cores with AXI ports."""
