"""External memory: bursts, an SDRAM, and the cache of activations in it.

Cores: forward_cache, sdram.
"""
