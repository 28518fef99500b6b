"""Formal proofs: one module a core, each proof with a reached cover and a failing mutant."""
