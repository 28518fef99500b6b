"""Verification of RTL against golden models: cases, testbenches, proofs."""
