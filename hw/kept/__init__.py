"""Training of the kept weights of compressed networks and programs.

Cores: sparse_trainer, stream_trainer.
"""
