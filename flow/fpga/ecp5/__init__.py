"""Steps for the ECP5 alone: placement constraints, and registers of multipliers."""
