"""Files of weights, vectors and seeds for a design in any language: memories, headers, arrays."""
