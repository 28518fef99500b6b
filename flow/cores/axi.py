"""AXI4, AXI4-Stream and AXI4-Lite ports around cores."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.axi.forward_cache_axi import ForwardCacheAxi
from seedbed.hw.axi.gemv_axi import GemvAxi
from seedbed.hw.axi.instantft_axi import InstantFtAxi
from seedbed.hw.axi.sparse_trainer_axi import SparseTrainerAxi
from seedbed.hw.axi.stream_engine_axi import StreamEngineAxi
from seedbed.hw.axi.stream_trainer_axi import StreamTrainerAxi
from seedbed.hw.axi.zo_trainer_axi import ZoTrainerAxi
from seedbed.sim.cases import (
    forward_cache,
    gemv,
    instantft,
    sparse_trainer,
    stream_engine,
    stream_trainer,
    zo_trainer,
)

__all__ = ["CORES"]

CORES = [
    Core(
        name="gemv_axi",
        title="gemv with AXI4-Stream and AXI4-Lite ports",
        config=spec.GemvConfig,
        component=GemvAxi,
        case=gemv.case,
        paper="SeedLM, section 4.2",
        inside="gemv",
        bench="seedbed.sim.axi.gemv_axi_bench",
    ),
    Core(
        name="forward_cache_axi",
        title="forward_cache with AXI4 and AXI4-Stream ports",
        config=spec.ForwardCacheConfig,
        component=ForwardCacheAxi,
        case=forward_cache.case,
        paper="InstantFT, sections 3.1 and 4.1",
        inside="forward_cache",
        bench="seedbed.sim.axi.forward_cache_axi_bench",
    ),
    Core(
        name="instantft_axi",
        title="instantft with AXI4, AXI4-Stream and AXI4-Lite ports",
        config=spec.InstantFtConfig,
        component=InstantFtAxi,
        case=instantft.case,
        paper="InstantFT, sections 3 and 4",
        inside="instantft",
        bench="seedbed.sim.axi.instantft_axi_bench",
    ),
    Core(
        name="zo_trainer_axi",
        title="zo_trainer with AXI4-Stream and AXI4-Lite ports",
        config=spec.ZoTrainerConfig,
        component=ZoTrainerAxi,
        case=zo_trainer.case,
        paper="ElasticZO, Algorithm 2",
        inside="zo_trainer",
        bench="seedbed.sim.axi.zo_trainer_axi_bench",
    ),
    Core(
        name="sparse_trainer_axi",
        title="sparse_trainer with AXI4, AXI4-Stream and AXI4-Lite ports",
        config=spec.SparseTrainerConfig,
        component=SparseTrainerAxi,
        case=sparse_trainer.case,
        paper="SensZOQ, sections 3 and 4",
        inside="sparse_trainer",
        bench="seedbed.sim.axi.sparse_trainer_axi_bench",
    ),
    Core(
        name="stream_engine_axi",
        title="stream_engine with AXI4, AXI4-Stream and AXI4-Lite ports",
        config=spec.StreamEngineConfig,
        component=StreamEngineAxi,
        case=stream_engine.case,
        paper="",
        inside="stream_engine",
        bench="seedbed.sim.axi.stream_engine_axi_bench",
    ),
    Core(
        name="stream_trainer_axi",
        title="stream_trainer with AXI4, AXI4-Stream and AXI4-Lite ports",
        config=spec.StreamTrainerConfig,
        component=StreamTrainerAxi,
        case=stream_trainer.case,
        paper="MeZO, algorithm 1; SensZOQ, section 3",
        inside="stream_trainer",
        bench="seedbed.sim.axi.stream_trainer_axi_bench",
    ),
]
