"""Worked examples of the data sheets, run on the cores."""

from random import Random

import numpy as np
import pytest

from seedbed.golden.bp_tail import BpTail as TailModel
from seedbed.golden.host_link import Packet, encode
from seedbed.hw.host.host_link import HostLink
from seedbed.hw.loss.loss_sign import LossSign, classes_layout, sign_layout
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.hw.tail.bp_tail import BpTail
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases import bp_tail, forward_cache, loss_sign
from seedbed.sim.harness import Stalls, simulate
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import BpTailConfig, ForwardCacheConfig, HostLinkConfig, LossSignConfig
from seedbed.spec.host_link import Operation

TAIL = BpTailConfig(inputs=(9, 6), classes=5, ways=2, row_lanes=8, batch=2)
SIGN = LossSignConfig(classes=3, ways=2)


@pytest.mark.parametrize(
    ("third", "errors"),
    [
        ("good", {"batch_error": 1}),
        ("label", {"label_error": 1, "batch_error": 1}),
        ("length", {"length_error": 1, "batch_error": 1}),
        ("cut", {"length_error": 1}),
    ],
)
def test_errors_of_the_tail_after_a_full_batch(third, errors):
    rng, model = np.random.default_rng(1), TailModel(TAIL)
    weights = rng.integers(-128, 128, (TAIL.classes, TAIL.inputs[-1]))
    model.load(weights)
    sent = []
    for _ in range(2):
        vectors = [rng.integers(0, 127, n) for n in TAIL.inputs]
        logits = rng.integers(-127, 127, TAIL.classes)
        model.sample(vectors, [0, 0], logits, -5, 1)
        sent += bp_tail.sample(TAIL, [*vectors, logits], [0, 0, -5], Random(1), 1)
    last = [*vectors, [*logits, 0, 0]] if third == "length" else [*vectors, logits]
    label = TAIL.classes if third == "label" else 1
    beats = bp_tail.sample(TAIL, last, [0, 0, -5], Random(1), label)
    sent += beats[:2] if third == "cut" else beats
    updates = bp_tail.response(TAIL, model.update(5), **errors)
    phases = [
        Phase(inputs={"i_weights": bp_tail.weight_packet(TAIL, weights)}),
        Phase(inputs={"i": sent}),
        Phase(inputs={"i_update": bp_tail.command(5)}, outputs={"o": updates}),
    ]
    simulate(BpTail(TAIL), Case(phases=phases, quiet=True), stalls=Stalls.BOTH, seed=1)


def batch(plus, minus, labels, classes, sign, errors=(0, 0)):
    """Return the phase of a batch of one sample, with the label of each pass."""
    passes = zip((plus, minus), labels, (False, True), strict=True)
    sent = [
        beat
        for logits, label, last in passes
        for beat in loss_sign.frame(SIGN, logits, -3, label, batch_last=last)
    ]
    shown = zip(classes, (0, 1), errors, strict=True)
    return Phase(
        inputs={"i": sent},
        outputs={
            "o": [sign_layout(SIGN).const({"sign": sign, "error": any(errors)}).as_bits()],
            "o_classes": [
                classes_layout(SIGN).const({"best": b, "minus": m, "error": e}).as_bits()
                for b, m, e in shown
            ],
        },
    )


def test_ties_and_labels_of_the_loss_sign():
    same, more, less = [10, 20, 20], [11, 20, 20], [10, 21, 20]
    phases = [
        batch(same, same, (0, 0), (1, 1), 0),
        batch(same, more, (0, 0), (1, 1), 1),
        batch(same, less, (0, 0), (1, 1), -1),
        # Another class in the + pass has no effect; a label that is no class does.
        batch(same, more, (2, 0), (1, 1), 1),
        batch(same, more, (3, 0), (1, 1), 0, (1, 0)),
        batch(same, more, (0, 3), (1, 1), 0, (0, 1)),
    ]
    simulate(LossSign(SIGN), Case(phases=phases, quiet=True), stalls=Stalls.BOTH, seed=1)


def test_frames_of_a_wrong_length_with_the_right_crc_have_no_response_and_refused_words_have():
    read = Packet(Operation.READ, 1, 4).to_bytes()
    send = Packet(Operation.SEND, 9, 0, 0, [7, 8]).to_bytes()
    silent = [read[:k] for k in range(1, 8)] + [read + bytes(k) for k in (1, 3, 4, 8)]
    silent += [send + bytes(k) for k in (1, 2, 3)]
    late = Packet(Operation.SEND, 9, 0, 5, [7]).to_bytes()
    many = Packet(Operation.SEND, 9, 0, 0, [1, 2, 3, 4, 5]).to_bytes()
    refused = list(encode(Packet(128 | Operation.SEND, 9, 4, 0).to_bytes()))
    accepted = list(encode(Packet(128 | Operation.SEND, 9, 2, 2).to_bytes()))
    position = list(encode(Packet(128, 1, 0, 3).to_bytes()))
    phases = [
        Phase(inputs={"i": list(b"".join(map(encode, silent)))}),
        *(Phase(inputs={"i": list(encode(p))}, outputs={"o": refused}) for p in (late, many)),
        Phase(inputs={"i": list(encode(send))}, outputs={"o": accepted}),
        Phase(
            inputs={"i": list(encode(Packet(Operation.WORDS, 1, 1, 5).to_bytes()))},
            outputs={"o": position},
        ),
        Phase(outputs={"o_words": [7, 8]}),
    ]
    dut = HostLink(HostLinkConfig(depth=4, receive_depth=4))
    simulate(dut, Case(phases=phases, quiet=True), stalls=Stalls.BOTH, seed=1)


def test_a_beat_is_written_before_its_command():
    config = ForwardCacheConfig(lengths=(200, 70, 9), entries=4, store_lanes=16, fetch_lanes=8)
    script = forward_cache.Session(config=config, rng=np.random.default_rng(1))
    script.store(1)
    store = script.phase()
    inputs = {name: store.inputs[name] for name in ("i", "i_codes")}

    async def process(ctx):
        # No command is accepted.
        came = await bench.run_phase(ctx, Phase(inputs=inputs, outputs={"o": [0]}), cycles=3000)
        assert came["o_write"]
        assert came["o_write"] == store.outputs["o_write"][: len(came["o_write"])]

    bench = ResetBench(ForwardCache(config), others=["o_command"])
    bench.run(process)
