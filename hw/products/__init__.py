"""Products of matrices and vectors: dense, compressed and sparse.

Cores: mac_array, gemv, sparse_mac.
"""
