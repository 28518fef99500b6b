"""Training of a network in int8 by forward passes.

Cores: zo_trainer.
"""
