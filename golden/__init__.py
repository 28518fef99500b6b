"""Golden models in NumPy: bit for bit what the RTL does, vectorised."""
