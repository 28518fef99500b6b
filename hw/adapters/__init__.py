"""Low-rank adapters of a frozen network, and their training.

Cores: lora, instantft.
"""
