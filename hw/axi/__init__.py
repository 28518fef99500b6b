"""AXI4, AXI4-Stream and AXI4-Lite ports around cores.

Wrappers: gemv_axi, forward_cache_axi, instantft_axi, zo_trainer_axi, sparse_trainer_axi,
stream_engine_axi, stream_trainer_axi.
"""
