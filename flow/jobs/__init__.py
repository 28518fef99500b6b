"""Jobs on real data for the emitted Verilog and for boards, and what they start from."""
