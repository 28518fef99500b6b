"""The emitted Verilog in simulators: cocotb, C++ and plain Verilog benches, mutants."""
