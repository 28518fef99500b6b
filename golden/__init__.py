"""Golden models in NumPy: bit-exact and vectorised."""
