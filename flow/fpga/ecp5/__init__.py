"""ECP5-specific steps: placement constraints and registers in multipliers."""
