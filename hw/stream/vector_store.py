"""The memory of vectors, between the parts of the engine that read and write it."""

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import memory

from seedbed.hw.parts.replicate import replicate
from seedbed.hw.stream.stream_layouts import element_layout
from seedbed.spec import StreamEngineConfig

__all__ = ["vector_store"]


def vector_store(m: Module, config: StreamEngineConfig, vectors, products, narrow, matrix) -> None:
    """Connect the store: the results of a matrix come before all others.

    A read takes :data:`~seedbed.hw.stream.stream_layouts.STORE_CYCLES`: its address, the memory and
    its data are registered. A write is registered once, like the address of a read, so that the
    order of reads and writes stays. No part reads in a cycle what another one writes in it.
    """
    m.submodules.store = store = memory.Memory(
        shape=element_layout(config), depth=config.store, init=[], attrs={"no_rw_check": True}
    )
    read, write = store.read_port(), store.write_port(granularity=1)
    m.d.sync += read.addr.eq(vectors.address)
    for part in (products, narrow, matrix):
        with m.If(part.read):
            m.d.sync += read.addr.eq(part.address)
    # Each part has a register of its own: they are far from each other.
    parts = vectors, products, narrow, matrix
    copies = replicate(m, Value.cast(read.data), len(parts), "store_data", fanout=1)
    for part, there in zip(parts, copies, strict=True):
        m.d.comb += Value.cast(part.data).eq(there)
    if config.ahead:
        m.d.comb += [
            *(port.eq(matrix.read) for port in (vectors.read_waits, products.waits)),
            narrow.waits.eq(matrix.read),
            vectors.write_waits.eq(matrix.write),
        ]
    if config.chains:
        m.d.comb += [part.of_matrix.eq(matrix.unwritten) for part in (vectors, products, narrow)]
    m.d.sync += [
        write.addr.eq(Mux(matrix.write, matrix.write_at, vectors.write_at)),
        write.en.eq(Mux(matrix.write, matrix.mask, vectors.write.replicate(config.lanes))),
        write.data.eq(Mux(matrix.write, matrix.results, vectors.values)),
    ]
