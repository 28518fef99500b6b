"""Operations on vectors beside the products of matrices: norms, softmax, rotations, activations.

Cores: vector_unit.
"""
