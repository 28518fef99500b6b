"""Training of the kept weights of a compressed network.

Cores: sparse_trainer.
"""
