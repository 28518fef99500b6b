"""The backpropagation of the tail against a training step of ElasticZO-INT8, and by hand."""

from dataclasses import replace

import numpy as np
import pytest

from seedbed.golden.bp_tail import BpTail, pairs
from seedbed.golden.elasticzo import ElasticZo, init
from seedbed.golden.elasticzo_sources import drawn
from seedbed.spec.bp_tail import ERROR_SHIFT, BpTailConfig
from seedbed.spec.elasticzo import LIMIT, ElasticZoConfig, Phase


@pytest.mark.parametrize("update_bits", [1, 3, 5, 7])
@pytest.mark.parametrize("reach", [0, 3])
@pytest.mark.parametrize(("network", "partition"), [("tiny", 2), ("tiny", 3), ("lenet5_padded", 3)])
def test_updates_are_those_of_a_training_step(network, partition, reach, update_bits):
    """Two steps of forward passes and backpropagation, the second with the updated weights."""
    config = ElasticZoConfig(network=network, partition=partition, exponent_range=reach, batch=8)
    rng = np.random.default_rng(7)
    trainer = ElasticZo(config, init(config, rng), drawn(7))
    tail = config.tail
    model = BpTail(
        BpTailConfig(
            inputs=tuple(layer.fan_in for layer in tail),
            classes=config.classes,
            batch=8,
            lanes=2,
            exponent_range=reach,
        )
    )
    phase = Phase(epoch=0, magnitude=15, zeros=84, update_bits=update_bits)
    for _ in range(2):
        images = rng.integers(0, 128, (8, *config.layers[0].inputs)).astype(np.float32)
        # Of different brightness, so that exponents differ by more than 1.
        images = np.floor(images * np.ldexp(1.0, -np.arange(8) // 2)[:, None, None, None])
        labels = rng.integers(0, config.classes, 8)
        weights = {layer.name: trainer.network.weights[layer.name] for layer in tail}
        last = trainer.forward(trainer.network.weights, images.astype(np.float32))
        trainer._backpropagate(last, labels, phase)
        model.load(weights[tail[-1].name])
        for n, label in enumerate(labels.tolist()):
            vectors = [each.reshape(-1, 8)[:, n] for each in last.seen]
            exponents = [int(scale[n]) for scale in last.scales]
            assert model.sample(vectors, exponents, last.logits[n], int(last.exponents[n]), label)
        for layer, update in zip(tail, model.update(update_bits), strict=True):
            found = np.clip(weights[layer.name] - update, -LIMIT, LIMIT)
            assert (found == trainer.network.weights[layer.name]).all()
            assert (update != 0).any()


def test_two_classes_by_hand():
    """Equal logits: shares of 1,024 of 2,048, less 2,048 at the label, are errors of +-64."""
    model = BpTail(BpTailConfig(inputs=(2,), classes=2, lanes=2, exponent_range=1))
    assert model.sample([np.array([3, -5])], [-4], np.array([0, 0]), 0, 1)
    assert model.gradients[0].tolist() == [[64 * 2 * 3, -64 * 2 * 5], [-64 * 2 * 3, 64 * 2 * 5]]
    # Two exponents above the first one's: weighted by 4 instead of 2, the range's end.
    assert model.sample([np.array([1, 0])], [-2], np.array([0, 0]), 0, 0)
    assert model.gradients[0].tolist() == [[384 - 256, -640], [-384 + 256, 640]]
    # 640 has 10 bits: shifted by 7, -128 gives -1 and 640 gives 5.
    assert model.update(3)[0].tolist() == [[1, -5], [-1, 5]]


def test_the_inner_error_by_hand():
    config = BpTailConfig(inputs=(1, 3), classes=2, lanes=2, exponent_range=0)
    model = BpTail(config)
    model.load(np.array([[127, -6, 90], [-127, -2, 6]]))
    assert ERROR_SHIFT == 8
    # Errors 64 and -64 of the logits: sums 16,256, -256 and 5,376, of which the last is masked.
    assert model.sample([np.array([2]), np.array([1, 1, 0])], [0, 0], np.array([0, 0]), 0, 1)
    assert model.gradients[0].ravel().tolist() == [2 * 64, 2 * -1, 0]


def test_what_does_not_fit_is_not_taken():
    model = BpTail(BpTailConfig(inputs=(1,), classes=2, lanes=2, batch=1))
    vectors, logits = [np.array([1])], np.array([1, 2])
    assert not model.sample(vectors, [0], logits, 0, 2)
    assert model.sample(vectors, [0], logits, 0, 1)
    assert not model.sample(vectors, [0], logits, 0, 1)
    assert model.update(7)[0].any()
    assert not model.update(7)[0].any()


def test_rows_have_groups_of_outputs_way_by_way():
    config = BpTailConfig(inputs=(9,), classes=3, lanes=2, ways=2, row_lanes=8)
    matrix = np.arange(1, 28).reshape(3, 9)
    rows = pairs(config, [matrix]).reshape(-1, 2, 8)
    assert rows.shape[0] == 2 * 2
    assert rows[0].tolist() == [[*range(1, 9)], [*range(10, 18)]]
    assert rows[1].tolist() == [[9, *[0] * 7], [18, *[0] * 7]]
    assert rows[2].tolist() == [[*range(19, 27)], [0] * 8]


@pytest.mark.parametrize("size", [1, 256, 257, 4096])
@pytest.mark.parametrize("reach", [0, 3, 5])
def test_accumulators_hold_the_largest_sum(size, reach):
    """Numbers of -128 are no activations, but the port can have them."""
    config = replace(BpTailConfig(), batch=size, exponent_range=reach)
    peak = size * 127 * 128 << 2 * reach
    assert peak < 1 << config.accumulator_bits - 1 <= 2 * peak
    assert BpTailConfig().accumulator_bits == ElasticZoConfig(partition=3).accumulator_bits == 29
