"""Bytes of training against the figures of ElasticZO's sections 5.3 (Figures 4 and 5)."""

import pytest

from seedbed.spec.elasticzo import ElasticZoConfig
from seedbed.spec.network import LENET5_PADDED
from seedbed.spec.training_memory import float_memory, int8_memory, streamed_memory

KI, MI = 1 << 10, 1 << 20
BP, CLS1, CLS2, ZO = 0, 3, 4, 5


def test_the_network_is_the_papers():
    layers = LENET5_PADDED.layers
    assert LENET5_PADDED.parameters == 107_786
    assert sum(layer.parameters for layer in layers[:CLS1]) == 96_772
    assert sum(layer.parameters for layer in layers[:CLS2]) == 106_936


@pytest.mark.parametrize(("batch", "full_bp", "full_zo"), [(32, 5.2, 2.6), (256, 36.1, 18.0)])
def test_float_totals(batch, full_bp, full_zo):
    assert round(float_memory(LENET5_PADDED, BP, batch).total / MI, 1) == full_bp
    assert round(float_memory(LENET5_PADDED, ZO, batch).total / MI, 1) == full_zo


@pytest.mark.parametrize(
    ("batch", "partition", "kilobytes", "percent"),
    [(32, CLS2, 4.6, 0.17), (32, CLS1, 65.3, 2.4), (256, CLS2, 13.3, 0.072), (256, CLS1, 221, 1.2)],
)
def test_what_a_tail_adds_in_float(batch, partition, kilobytes, percent):
    least = float_memory(LENET5_PADDED, ZO, batch).total
    more = float_memory(LENET5_PADDED, partition, batch).total - least
    assert more / KI == pytest.approx(kilobytes, rel=0.01)
    assert 100 * more / least == pytest.approx(percent, rel=0.03)


def test_activations_and_parameters():
    found = float_memory(LENET5_PADDED, CLS2, 256)
    assert round(found.activations / found.parameters, 1) == 42.9
    # Printed as 97.6: the paper cuts 97.65 off.
    assert 97.6 <= 100 * found.activations / found.total < 97.7
    found = float_memory(LENET5_PADDED, CLS1, 256)
    assert round(100 * found.activations / found.total, 1) == 96.6


def test_adam_has_two_moments():
    plain, adam = (float_memory(LENET5_PADDED, BP, 32, adam=on) for on in (False, True))
    assert adam.total - plain.total == 2 * 4 * LENET5_PADDED.parameters


@pytest.mark.parametrize(
    ("batch", "bp", "cls2", "cls1", "smaller"),
    [(32, 1.8, 0.26, 4.1, 1.60), (256, 1.6, 0.052, 1.4, 1.46)],
)
def test_int8_against_zeroth_order_and_float(batch, bp, cls2, cls1, smaller):
    least = int8_memory(LENET5_PADDED, ZO, batch).total
    assert round(int8_memory(LENET5_PADDED, BP, batch).total / least, 1) == bp
    for partition, percent in ((CLS2, cls2), (CLS1, cls1)):
        more = int8_memory(LENET5_PADDED, partition, batch).total - least
        assert 100 * more / least == pytest.approx(percent, rel=0.03)
    assert round(float_memory(LENET5_PADDED, ZO, batch).total / least, 2) == smaller


def test_streamed_samples_need_no_memory_for_a_batch():
    found = streamed_memory(ElasticZoConfig(partition=CLS1))
    assert found.parameters == 107_550
    # A sample; conv1's input and pooled output.
    assert found.activations == 28 * 28 + 28 * 28 + 6 * 14 * 14
    # conv1's pooled sums; fc2's and fc3's gradients, 29 bits each.
    assert found.wide == 4 * 6 * 14 * 14 + (84 * 120 + 10 * 84) * 29 / 8
    assert found.errors == 84 + 10
    assert found.perturbations == 6 * 25 + 16 * 150
    full_zo = streamed_memory(ElasticZoConfig(partition=ZO))
    assert full_zo.total == 107_550 + 2744 + 4704 + 2550
    assert int8_memory(LENET5_PADDED, ZO, 256).total > 100 * full_zo.total


def test_a_partition_that_is_no_layer_is_refused():
    with pytest.raises(ValueError, match=r"partition must be in 0\.\.5, not 6"):
        int8_memory(LENET5_PADDED, 6, 32)
