"""Proofs of the host link."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value

from seedbed.hw.host.host_link import HostLink
from seedbed.hw.host.link_frames import FrameReceiver, FrameTransmitter, packet_layout
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import Operation

__all__ = ["PROOFS"]

#: Bytes of a request, those with its CRC, and those of a word.
HEADER, LENGTH, WORD = 8, 12, 4


def frames(dut: FrameReceiver) -> Module:
    """Decode the same bytes into a table, and follow what the CRC is computed of."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    fire, byte = transfer(dut.i), dut.i.payload
    # The frame so far: its first bytes, its last ones with the newest first, their number, those
    # left in its group, and a zero before the next one.
    content = [Signal(8, name=f"content_{k}") for k in range(HEADER)]
    recent = [Signal(8, name=f"recent_{k}") for k in range(HEADER)]
    count, rest, zero_next = Signal(16), Signal(8), Signal()
    grows = fire & (byte != 0) & ((rest != 0) | zero_next)
    value = Mux(rest == 0, 0, byte)
    with m.If(grows):
        # A longer frame has a whole number of words more or less.
        wraps = count == LENGTH + 2 * WORD - 1
        m.d.sync += count.eq(Mux(wraps, LENGTH + WORD, count + 1))
        m.d.sync += [new.eq(old) for new, old in zip(recent, [value, *recent], strict=False)]
        with m.Switch(count):
            for k, part in enumerate(content):
                with m.Case(k):
                    m.d.sync += part.eq(value)
    with m.If(fire):
        m.d.sync += rest.eq(Mux(rest == 0, byte - 1, rest - 1))
        with m.If(rest == 0):
            m.d.sync += zero_next.eq(byte != 255)
    ends = fire & (byte == 0)
    with m.If(ends):
        m.d.sync += [count.eq(0), rest.eq(0), zero_next.eq(0)]
    match = inside["checksum.match_detected"]
    whole = ends & (rest == 0) & match
    sends = content[0] == Operation.SEND
    good = whole & (count == LENGTH) & ~sends
    words = whole & ((count == LENGTH) | (count == LENGTH + WORD)) & sends
    # A word is complete when the four bytes after it are known: it is not the CRC.
    complete = grows & ((count == LENGTH + WORD - 1) | (count == LENGTH + 2 * WORD - 1))
    word = Cat(reversed(recent[WORD - 1 : 2 * WORD - 1]))
    request = Signal(64)
    with m.If(good):
        m.d.sync += request.eq(Cat(content))
    header = Value.cast(dut.header)
    m.d.comb += [
        Assert(~past(m, good) | dut.o.valid),
        Assert(~dut.o.valid | past(m, good | (dut.o.valid & ~dut.o.ready))),
        Assert(~dut.o.valid | (Value.cast(dut.o.payload) == request)),
        Assert(dut.end == past(m, ends)),
        Assert(dut.good == past(m, words)),
        Assert(~dut.good | (header == past(m, Cat(content)))),
        Assert(dut.write == past(m, complete)),
        Assert(~dut.write | (dut.word == past(m, word))),
        # The CRC is that of the decoded bytes of this frame.
        Assert(inside["valid"] == grows),
        Assert(~grows | ((inside["data"] == value) & (inside["start"] == (count == 0)))),
        # Invariants that the induction needs.
        Assert(inside["count"] == Mux(count >= LENGTH + WORD, count - WORD, count)),
        Assert(inside["has_words"] == (count >= LENGTH + WORD)),
        Assert(inside["left"] == rest),
        Assert(inside["implied"] == zero_next),
        Assert(count < LENGTH + 2 * WORD),
        Assert((count < HEADER) | (header == Cat(content))),
        Assert(~dut.o.valid | (header == request)),
    ]
    for length in range(1, HEADER + 1):
        decoded = Cat(reversed(recent[:length]))
        m.d.comb += Assert((count < length) | (inside["shift"][-8 * length :] == decoded))
        # The first bytes are the last ones, too, until the header is complete.
        first = Cat(content[:length])
        m.d.comb += Assert((count != length) | (decoded == first))
    bad = ends & (count == LENGTH) & ~match
    cover(m, good, bad, ends & (rest != 0) & (count == 5), words & (count == LENGTH + WORD))
    return m


def commands(dut: HostLink) -> Module:
    """Follow the sequence numbers of the requests, and the commands that they lead to."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o_commands)
    pending, last = inside["receiver.o__valid"], inside["last"]
    request = packet_layout()(inside["receiver.o__payload"])
    command = dut.o_commands.payload
    fire = transfer(dut.o_commands)
    follows = request.sequence == (last + 1)[:8]
    with m.If(dut.o_commands.valid):
        m.d.comb += [
            Assert(pending),
            Assert(command.address == request.argument),
            Assert(command.write == (request.operation == Operation.WRITE)),
            Assert(~command.write | ((command.data == request.data) & follows)),
        ]
    # The number of a request is known from its command on, and then it does not follow.
    before, number = past(m, last), past(m, request.sequence)
    m.d.comb += [
        Assert(~past(m, fire) | (last == number)),
        Assert((last == before) | past(m, pending & (follows | (request.sequence == last)))),
        Assert((last == before) | (last == number)),
    ]
    # Invariants that the induction needs: outside IDLE, a request is pending and in sequence, or
    # it is answered only.
    state, acknowledges = inside["fsm_state"], inside["acknowledges"]
    # In the order of their first mention.
    idle, _, command_state, words, value = (state == k for k in range(5))
    m.d.comb += [
        Assert(state <= 4),
        Assert(idle | pending | (acknowledges & (state == 1))),
        Assert((state < 2) | ~acknowledges),
        Assert(~(command_state | value | words) | follows | (request.sequence == last)),
        Assert(~(command_state & (request.operation == Operation.WRITE)) | follows),
        Assert(~value | (request.operation == Operation.READ)),
    ]
    # The frames' proof has the requests; that they come is enough here.
    cover(m, pending & fire & command.write, pending & (request.operation == Operation.WORDS))
    return m


def bytes_stable(dut: FrameTransmitter) -> Module:
    """Observe the bytes of a frame."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    cover(m, inside["zero_last"] & transfer(dut.o))
    return m


PROOFS = (
    Proof(
        name="host_link_frames",
        says="A request is output for each frame that is complete, has its length and, as "
        "amaranth.lib.crc finds, the right CRC, and for no other; it is stable until its transfer. "
        "Words are those of their frame, all of them and once, without its CRC.",
        component=FrameReceiver,
        config=HostLinkConfig(),
        harness=frames,
        reach=22,
        mutants=(
            Mutant("the CRC is not checked", " & crc.match_detected", ""),
            Mutant("an implied zero is lost", "Mux(code, implied,", "Mux(code, 0,"),
            Mutant("a CRC continues", "crc.start.eq((count == 0) & ~has_words)", "crc.start.eq(0)"),
            Mutant(
                "the CRC is a word",
                "with m.If(count == REQUEST_BYTES + WORD_BYTES - 1):",
                "with m.If(count == REQUEST_BYTES - 1):",
            ),
        ),
    ),
    Proof(
        name="host_link_commands",
        says="A write is commanded only for a pending request whose sequence number is one more "
        "than the last, which it then is; a valid command is stable until its transfer.",
        component=HostLink,
        config=HostLinkConfig(depth=4),
        harness=commands,
        reach=22,
        mutants=(
            Mutant("a repeated write is done again", "m.If(is_new):", "m.If(1):"),
            Mutant(
                "any sequence number is accepted",
                "m.Elif(~is_new & (request.sequence != last)):",
                "m.Elif(0):",
            ),
        ),
    ),
    Proof(
        name="host_link_bytes",
        says="A valid byte to the host is stable until its transfer.",
        component=FrameTransmitter,
        config=HostLinkConfig(),
        harness=bytes_stable,
        depth=3,
        mutants=(
            Mutant(
                "the next byte is read too early",
                "read.addr.eq(index),",
                "read.addr.eq(index + 1),",
            ),
            Mutant(
                "a byte is lost",
                'm.Elif(fire_o):\n                    m.next = "BYTES"',
                'm.Elif(1):\n                    m.next = "BYTES"',
            ),
        ),
    ),
)
