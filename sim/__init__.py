"""Where RTL meets golden models: cases, benches, proofs."""
