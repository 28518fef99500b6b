"""What the AXI wrappers of cores that run programs share: tokens, vectors and results."""

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.lib.wiring import In, Member, Out

from seedbed.hw.axi.axi import axi_stream
from seedbed.hw.axi.axi_memory import ADDRESS_BITS
from seedbed.hw.axi.trainer_axi import extended
from seedbed.spec import StreamEngineConfig

__all__ = ["ELEMENT_BITS", "connect_blocks", "program_streams", "result_beat"]

#: Bits of a token, and of an element of a result.
ELEMENT_BITS = 32


def program_streams(config: StreamEngineConfig) -> dict[str, Member]:
    """Return the members of the AXI4-Streams for tokens, vectors and results.

    Raises ``ValueError`` for a memory with more than 32 bits of a byte's address.
    """
    most = ADDRESS_BITS - (config.beat_bits // 8).bit_length() + 1
    if config.address_bits > most:
        raise ValueError(
            f"address_bits must be at most {most} with AXI ports and "
            f"beat_bits={config.beat_bits}, not {config.address_bits}"
        )
    vectors = axi_stream("s_axis_vectors", config.lanes * config.unit.width, In)
    return (
        axi_stream("s_axis_tokens", ELEMENT_BITS, In)
        | (vectors if config.inputs else {})
        | axi_stream("m_axis_results", config.lanes * ELEMENT_BITS, Out)
    )


def connect_blocks(m, port, core) -> None:
    """Connect ``s_axis_tokens`` and, with ``inputs``, ``s_axis_vectors`` of a wrapper."""
    _tokens(m, port, core.i_tokens)
    if core.config.inputs:
        vectors = core.i_vectors
        m.d.comb += [
            Value.cast(vectors.payload.values).eq(port.s_axis_vectors_tdata),
            vectors.payload.last.eq(port.s_axis_vectors_tlast),
            vectors.valid.eq(port.s_axis_vectors_tvalid),
            port.s_axis_vectors_tready.eq(vectors.ready),
        ]


def _tokens(m, port, tokens) -> None:
    """Connect tokens; one that the core does not hold becomes one that no program has."""
    number = port.s_axis_tokens_tdata
    width = len(tokens.payload.token)
    excess = number[width:].any()
    if "label" in tokens.payload.shape().members:
        excess = Const(0)
        m.d.comb += tokens.payload.label.eq(number[width:])
    m.d.comb += [
        tokens.payload.token.eq(Mux(excess, ~0, number)),
        tokens.payload.last.eq(port.s_axis_tokens_tlast),
        tokens.valid.eq(port.s_axis_tokens_tvalid),
        port.s_axis_tokens_tready.eq(tokens.ready),
    ]


def result_beat(result) -> Value:
    """Return the data of a beat of results: its elements, sign-extended."""
    return Cat(extended(value, ELEMENT_BITS) for value in result.values)
