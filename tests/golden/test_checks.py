"""Models refuse inputs that are not integers in the range of their format, by name."""

import numpy as np
import pytest

from seedbed.golden import conv_engine, engine, seedlm
from seedbed.golden import network as float_network
from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import to_fixed
from seedbed.golden.forward_cache import ForwardCache
from seedbed.golden.gemv import Gemv
from seedbed.golden.instantft import InstantFt, Seen
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.lora import Lora
from seedbed.golden.loss_sign import LossSign
from seedbed.golden.mac_array import MacArray
from seedbed.golden.nf4 import Nf4
from seedbed.golden.perturbation import Perturbation
from seedbed.golden.prng_pool import PrngPool
from seedbed.golden.requantize import Requantize
from seedbed.golden.scale_lut import ScaleLut
from seedbed.golden.seedlm_decompress import decompress
from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.golden.tree_grng import TreeGrng, seed_bits
from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.spec import (
    ConvEngineConfig,
    ForwardCacheConfig,
    GemvConfig,
    InstantFtConfig,
    LfsrConfig,
    LoraConfig,
    LossSignConfig,
    MacArrayConfig,
    Nf4Config,
    PerturbationConfig,
    PoolConfig,
    RequantizeConfig,
    ScaleConfig,
    SeedlmConfig,
    SeedlmDecompressConfig,
    SoftmaxLossConfig,
    TreeGrngConfig,
    UrngConfig,
)
from seedbed.spec.fixed import Q4_12, Q6_12
from seedbed.spec.network import TINY

ONES = {name: np.ones(shape.shape, int) for name, shape in
        float_network.init(TINY, np.random.default_rng(1)).items()}  # fmt: skip
BLOCKS = SeedlmConfig(block=4, latent=2, width=5)
GEMV = Gemv(GemvConfig(beat_bits=64, columns=64, activation_width=16))
LORA = Lora(
    LoraConfig(widths=(3,), classes=2, rank=4), [np.ones((4, 3), int)], [np.ones((2, 4), int)]
)
SOFTMAX = SoftmaxLoss(SoftmaxLossConfig(classes=2))
REQUANTIZE = Requantize(RequantizeConfig())
SIGN = LossSign(LossSignConfig(classes=2))
CACHE = ForwardCache(ForwardCacheConfig(lengths=(3,)))
MAC = MacArray(MacArrayConfig(lanes=2, blocks=1, activation_width=16))
TINY_FT = InstantFtConfig(network="tiny", rank=2)


def of(shape, number):
    """Return ones, and ``number`` in place of the last one."""
    found = np.ones(shape, np.result_type(number))
    found.flat[-1] = number
    return found


def tuned(**changes):
    """Return InstantFT's model with one of its weights changed."""
    return InstantFt(TINY_FT, ONES | changes, np.random.default_rng(1), 0.1)


#: What takes a number, by the name that a refusal gives it; least, and greatest.
INPUTS = {
    "lfsr seed": (lambda x: Lfsr(LfsrConfig()).load(x), 1, 255),
    "urng_array seeds": (lambda x: UrngArray(UrngConfig()).load(of(31, x)), 1, 255),
    "urng_array word": (lambda x: UrngArray(UrngConfig()).grow(x), 1, 255),
    "urng_array beats of seeds": (lambda x: seed_beats(UrngConfig(), of(31, x)), 0, 255),
    "scale_lut states": (ScaleLut(ScaleConfig(lanes=3)).lookup, 0, 255),
    "prng_pool numbers": (lambda x: PrngPool(PoolConfig()).load(of(9, x)), -2048, 2047),
    "perturbation seed": (
        lambda x: Perturbation(PerturbationConfig()).beats(seed=x, d=9), 1, 2**14 - 1,
    ),
    "perturbation d": (
        lambda x: Perturbation(PerturbationConfig(count_width=8)).beats(seed=1, d=x), 1, 255,
    ),
    "perturbation eps": (
        lambda x: Perturbation(PerturbationConfig()).beats(seed=1, d=9, eps=x), -32, 31,
    ),
    "perturbation next seed": (
        lambda x: Perturbation(PerturbationConfig(source="pool")).next_seed(x, 9), 0, 4094,
    ),
    "tree_grng seeds": (lambda x: TreeGrng(TreeGrngConfig()).load(of((1, 8), x)), 1, 1023),
    "tree_grng bits of seeds": (lambda x: seed_bits(TreeGrngConfig(), of((1, 8), x)), 0, 1023),
    "mac_array weights": (lambda x: MAC.sums(of((1, 2), x), of((1, 2), 1)), -(2**20), 2**20 - 1),
    "mac_array activations": (lambda x: MAC.sums(of((1, 2), 1), of((1, 2), x)), -32768, 32767),
    "mac_array exponents": (
        lambda x: MAC.sums(of((1, 2), 1), of((1, 2), 1), of((1, 1), x)), -8, 7,
    ),
    "seedlm seeds": (lambda x: seedlm.words(BLOCKS, of(3, x)), 0, 31),
    "seedlm coefficients": (lambda x: seedlm.sums(BLOCKS, of(1, 1), of((1, 2), x)), -8, 7),
    "seedlm exponents": (
        lambda x: seedlm.decode(BLOCKS, of(1, 1), of(1, x), of((1, 2), 1)), -8, 7,
    ),
    "seedlm packed seeds": (
        lambda x: seedlm.pack(BLOCKS, of(1, x), of(1, 1), of((1, 2), 1)), 0, 31,
    ),
    "seedlm packed exponents": (
        lambda x: seedlm.pack(BLOCKS, of(1, 1), of(1, x), of((1, 2), 1)), -8, 7,
    ),
    "seedlm packed coefficients": (
        lambda x: seedlm.pack(BLOCKS, of(1, 1), of(1, 1), of((1, 2), x)), -8, 7,
    ),
    "seedlm packed": (lambda x: seedlm.unpack(BLOCKS, of(3, x)), 0, 2**17 - 1),
    "seedlm_decompress packed": (
        lambda x: decompress(SeedlmDecompressConfig(), of((1, 2), x)), 0, 2**32 - 1,
    ),
    "gemv x": (lambda x: GEMV.packed_product(of((1, 2), 1), of(16, x)), -32768, 32767),
    "gemv packed": (
        lambda x: GEMV.packed_product(of((1, 2), x), of(16, 1)), 0, 2**32 - 1,
    ),
    "gemv plain x": (lambda x: GEMV.plain_product(of((1, 4), 1), of(4, x)), -32768, 32767),
    "gemv weights": (lambda x: GEMV.plain_product(of((1, 4), x), of(4, 1)), -32768, 32767),
    "gemv beats of packed": (lambda x: GEMV.packed_beats(of((1, 2), x)), 0, 2**32 - 1),
    "gemv beats of weights": (lambda x: GEMV.plain_beats(of((1, 4), x)), -32768, 32767),
    "nf4 x": (lambda x: Nf4(Nf4Config()).quantise(of(9, x)), Q6_12.low, Q6_12.high),
    "nf4 codes": (lambda x: Nf4(Nf4Config()).dequantise(of(9, x), of(1, 1)), 0, 15),
    "nf4 peaks": (lambda x: Nf4(Nf4Config()).dequantise(of(9, 1), of(1, x)), 0, 2**16 - 1),
    "forward_cache codes": (lambda x: CACHE.pack(of(3, x), of(1, 1)), 0, 15),
    "forward_cache peaks": (lambda x: CACHE.pack(of(3, 1), of(1, x)), 0, 2**16 - 1),
    "forward_cache octets": (lambda x: CACHE.unpack(of(CACHE.config.entry_bytes, x)), 0, 255),
    "softmax_loss logits": (
        lambda x: SOFTMAX.run(of((1, 2), x), of(1, 1)), Q6_12.low, Q6_12.high,
    ),
    "softmax_loss labels": (lambda x: SOFTMAX.run(of((1, 2), 1), of(1, x)), 0, 1),
    "requantize sums": (
        lambda x: REQUANTIZE.run(of((1, 4), x), *of((3, 1), 1)), -(2**24), 2**24 - 1,
    ),
    "loss_sign logits": (
        lambda x: SIGN.run(of((2, 1, 2), x), of((2, 1), 1), of(1, 1)), -128, 127,
    ),
    "loss_sign exponents": (
        lambda x: SIGN.run(of((2, 1, 2), 1), of((2, 1), x), of(1, 1)), -128, 127,
    ),
    "loss_sign labels": (
        lambda x: SIGN.run(of((2, 1, 2), 1), of((2, 1), 1), of(1, x)), 0, 1,
    ),
    "lora a": (
        lambda x: Lora(LORA.config, [of((4, 3), x)], [of((2, 4), 1)]), Q4_12.low, Q4_12.high,
    ),
    "lora b": (
        lambda x: Lora(LORA.config, [of((4, 3), 1)], [of((2, 4), x)]), Q4_12.low, Q4_12.high,
    ),
    "lora x": (lambda x: LORA.forward([of((1, 3), x)], of((1, 2), 1)), Q6_12.low, Q6_12.high),
    "lora base": (lambda x: LORA.forward([of((1, 3), 1)], of((1, 2), x)), Q6_12.low, Q6_12.high),
    "lora dz": (
        lambda x: LORA.update([of((1, 3), 1)], [of((1, 4), 1)], of((1, 2), x), 0),
        Q4_12.low, Q4_12.high,
    ),
    "lora h": (
        lambda x: LORA.update([of((1, 3), 1)], [of((1, 4), x)], of((1, 2), 1), 0),
        Q6_12.low, Q6_12.high,
    ),
    "lora rate": (
        lambda x: LORA.update([of((1, 3), 1)], [of((1, 4), 1)], of((1, 2), 1), x), 0, 2**17 - 1,
    ),
    "conv_engine fc2.bias": (
        lambda x: conv_engine.ConvEngine(
            ConvEngineConfig(network="tiny"), ONES | {"fc2.bias": of(5, x)}
        ),
        Q4_12.low, Q4_12.high,
    ),
    "conv_engine x": (
        lambda x: conv_engine.ConvEngine(ConvEngineConfig(network="tiny"), ONES).run(
            of((1, 1, 6, 6), x)
        ),
        Q6_12.low, Q6_12.high,
    ),
    "instantft fc1.weight": (
        lambda x: tuned(**{"fc1.weight": of((6, 16), x)}), Q4_12.low, Q4_12.high,
    ),
    "instantft labels": (
        lambda x: tuned().score(
            Seen([of((1, n), 1) for n in TINY_FT.lora.widths], of((1, 5), 1)), of(1, x)
        ),
        0, 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_only_whole_numbers_in_range_come_in(name):
    take, least, greatest = INPUTS[name]
    for number in (least, greatest, float(least)):
        take(number)
    word = name.split()[-1].removesuffix("s")
    for number in (least - 1, greatest + 1, least + 0.9, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"{word}s? .*must be a whole number in .*, not "):
            take(number)


def test_whole_numbers_in_floats_are_the_same_numbers():
    whole = np.array([[3, -4]])
    assert MAC.sums(whole, whole).tolist() == MAC.sums(whole.astype(float), whole).tolist() == 25


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match=r"every one of x must be a whole number in 0\.\.9, not 'a"):
        require_integers("x", ["a"], 0, 9)
    with pytest.raises(ValueError, match=r"must be real numbers, not nan"):
        to_fixed(np.array([1.0, np.nan]), Q6_12)
    assert require_integers("x", [], 0, 9).dtype == np.int64


def test_rows_of_an_engine_take_whole_numbers():
    config = ConvEngineConfig(network="tiny", lanes=8, ways=2)
    with pytest.raises(ValueError, match=r"conv1\.bias must be a whole number"):
        engine.frozen_rows(config.engine.plan, config.layers, ONES | {"conv1.bias": of(3, 1.5)})
