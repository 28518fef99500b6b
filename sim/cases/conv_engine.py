"""Case of the frozen network: parameters, images back to back, and every fault."""

from random import Random

import numpy as np

from seedbed.golden.conv_engine import ConvEngine
from seedbed.hw.engine.conv_engine import image_layout, result_layout
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.sim.payloads import image_beats
from seedbed.spec import CONV_ENGINE_STATUS, ConvEngineConfig

__all__ = ["case", "drawn", "fault", "image_payloads", "images", "result_payloads", "word_payloads"]


def drawn(config: ConvEngineConfig, rng: np.random.Generator, *, peak: float = 1) -> ConvEngine:
    """Return a model with random parameters; sums are about as large as ``peak`` stands for."""
    parameters = {}
    for layer in config.layers:
        deviation = config.weights.one * peak * (3 / layer.fan_in) ** 0.5
        weights = rng.normal(0, deviation, (layer.outputs, layer.fan_in))
        bias = rng.normal(0, config.weights.one * peak / 2, layer.outputs)
        parts = [("weight", weights), ("bias", bias)]
        for part, numbers in parts if layer.bias else parts[:1]:
            whole = np.rint(numbers).astype(np.int64)
            parameters[f"{layer.name}.{part}"] = whole.clip(config.weights.low, config.weights.high)
    return ConvEngine(config, parameters)


def images(config: ConvEngineConfig, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return random images (count, C, H, W) between -1 and 1, some numbers at the extremes."""
    form, shape = config.values, (count, *config.layers[0].inputs)
    one = min(form.one, form.high)
    x = rng.integers(-one, one + 1, shape)
    return np.where(rng.random(shape) < 0.03, rng.choice([form.low, form.high], shape), x)


def word_payloads(config: ConvEngineConfig, words: np.ndarray) -> list[int]:
    """Return a packet of parameters."""
    layout = words_layout(config.engine)
    return [
        layout.const({"word": word.tolist(), "last": k == len(words) - 1}).as_bits()
        for k, word in enumerate(words)
    ]


def image_payloads(
    config: ConvEngineConfig, x: np.ndarray, rng: np.random.Generator, beats: int = 0
) -> list[int]:
    """Return the packet of an image (C, H, W); ``beats`` is how many, if wrongly."""
    form, beats = config.values, beats or config.image_beats
    (given,) = image_beats(
        x[None], config.ways, lambda shape: rng.integers(form.low, form.high + 1, shape)
    )
    given = np.resize(given, (beats, config.ways))
    layout = image_layout(config)
    return [
        layout.const({"values": beat.tolist(), "last": k == beats - 1}).as_bits()
        for k, beat in enumerate(given)
    ]


def result_payloads(config: ConvEngineConfig, outputs: np.ndarray, saturated: int) -> list[int]:
    """Return an image's results: channels in groups of ways, position by position."""
    channels = config.layers[-1].shape[0]
    layout, ways, found = result_layout(config), config.ways, []
    for position in outputs.reshape(-1, channels):
        for start in range(0, channels, ways):
            found.append(position[start : start + ways].tolist())
    return [
        # What is after the count is what sums of rows of zeros are.
        layout.const(
            {
                "values": values + [0] * (ways - len(values)),
                "count": len(values),
                "saturated": saturated if k == len(found) - 1 else 0,
                "last": k == len(found) - 1,
            }
        ).as_bits()
        for k, values in enumerate(found)
    ]


def fault(config: ConvEngineConfig, status: str) -> int:
    """Return the beat of an image that could not be run."""
    code = CONV_ENGINE_STATUS.index(status)
    return result_layout(config).const({"status": code, "last": 1}).as_bits()


def ran(model: ConvEngine, x: np.ndarray) -> list[int]:
    """Return the results of one image."""
    before = model.saturations.count
    (outputs,) = model.run(x[None])
    return result_payloads(model.config, outputs, model.saturations.count - before)


def case(config: ConvEngineConfig, random: Random, *, count: int = 3) -> Case:
    """Return images back to back, wrong ones among them, other parameters, and broken ones."""
    rng = np.random.default_rng(random.getrandbits(32))
    phases, whole = [], config.image_beats
    for peak in (1, 3):
        model = drawn(config, rng, peak=peak)
        phases.append(Phase(inputs={"i_parameters": word_payloads(config, model.words())}))
        sent, came = [], []
        for k, x in enumerate(images(config, rng, count)):
            for wrong in {whole + k, whole - k} - {whole, 0}:
                sent += image_payloads(config, x, rng, wrong)
                came.append(fault(config, "image"))
            sent += image_payloads(config, x, rng)
            came += ran(model, x)
        phases.append(Phase(inputs={"i": sent}, outputs={"o": came}))
    words = model.words()
    (x,) = images(config, rng, 1)
    refused = [fault(config, "parameters")]
    for packet, came in [
        (words[:-1], refused),
        (np.concatenate([words, words[:3]]), refused),
        (words, ran(model, x)),
    ]:
        phases += [
            Phase(inputs={"i_parameters": word_payloads(config, packet)}),
            Phase(inputs={"i": image_payloads(config, x, rng)}, outputs={"o": came}),
        ]
    return Case(
        phases=phases,
        quiet=True,
        retains=True,
        timeout_cycles=TIMEOUT_CYCLES + config.engine.plan.cycles,
    )
