"""Programs in external memory that are walked for a block of tokens: transformers, dense networks.

Cores: stream_engine.
"""
