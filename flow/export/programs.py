"""Export of an imported transformer for ``stream_engine``: its memory, tokens and results."""

import numpy as np

from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.request import Request
from seedbed.flow.importer import program_file
from seedbed.flow.importer.program_figures import BLOCKS
from seedbed.flow.jobs.program_core import choosing, fitted
from seedbed.golden.kept_weights import trainable
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.stream.stream_layouts import job_layout, token_layout
from seedbed.sim.cases.stream_engine import job, limits, token_payloads
from seedbed.sim.jobs.stream_job import whole_beats

__all__ = ["export"]


def export(request: Request) -> Export:
    """Return the memory, commands, and the tokens of a text with their results.

    With the parameter ``choose``, the result of a decoder is its most probable token. Raises
    ``ValueError`` for a folder that no import wrote, and for a program or a text that does not fit.
    """
    assert request.source
    where = str(request.source)
    loaded = program_file.read(request.source)
    program = loaded.program
    most, context = BLOCKS[not program.causal]
    given = dict(request.params)
    if given.get("choose"):
        program = choosing(program)
    block = given.pop("block", most)
    context = given.pop("context", max(block, context) if program.causal else block)
    parameters = dict(loaded.parameters)
    try:
        if given.get("tune"):
            parameters = trainable(parameters, given["tune"])
        engine = StreamEngine(program, parameters)
        found = fitted(request.core, engine, block=block, context=context, **given)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where}: {problem}") from problem
    config = found.config
    tokens = _tokens(request, loaded, context if program.causal else block)
    parts = [tokens[k : k + config.block] for k in range(0, len(tokens), config.block)]
    vectors = np.concatenate([engine.run(part) for part in parts])
    elements, fraction = vectors.shape[1], program.vectors[program.result].fraction
    values = whole_beats(config, vectors)
    starts = [job(config, "run", start=int(k == 0)) for k in range(len(parts))]
    memory = Memory(name="memory", title="i_read_data", width=config.beat_bits, raw=found.memory)
    saved, kept = found.image.saved, found.image.kept_beats
    beats_of_image, (first, end) = len(found.image.beats), found.image.limits
    return Export(
        core=request.core,
        params=found.params,
        title=f"{request.core.name}, program of {where!a}",
        memories=[
            memory,
            Memory.integers(
                "commands", "i, all fields", job_layout(config).size,
                [job(config, "load", **limits(config, found.image)), *starts],
            ),
            Memory.integers(
                "tokens", "i_tokens, all fields", token_layout(config).size,
                [each for part in parts for each in token_payloads(config, part.tolist())],
            ),
            Memory.of(
                "results", "o_values", config.unit.residual_width, values
            ),
        ],
        constants={
            "MEMORY_BEATS": beats_of_image + saved, "FIRST": first, "END": end, "KEPT_BEATS": kept,
            "BLOCK": config.block, "CONTEXT": config.context, "TOKENS": len(tokens),
            "VOCABULARY": loaded.tokenizer.get_vocab_size(), "RESULTS": len(vectors),
            "RESULT_ELEMENTS": elements, "RESULT_BEATS": len(values) // len(vectors),
            "RESULT_SCALE": -fraction,
        },
        numbers={"x": tokens, "y": vectors},
        notes=[
            f"{len(program.operations)} operations, {found.config.records} records; "
            f"{beats_of_image:,} beats of {config.beat_bits // 8} bytes",
            *[f"The last {kept:,} of them are kept weights that can be tuned"] * (kept > 0),
            *[f"Keys and values are written to the {saved:,} beats after them"] * (saved > 0),
            f"{len(tokens)} tokens in {len(parts)} blocks",
            "A result is the number of a token" if given.get("choose")
            else f"A result of 1 is 2^{-fraction}",
        ],
    )  # fmt: skip


def _tokens(request: Request, loaded: program_file.Loaded, most: int) -> np.ndarray:
    """Return the tokens of the text, or random ones."""
    if request.prompt is None:
        size = loaded.tokenizer.get_vocab_size()
        return request.rng.integers(0, size, min(request.count, most))
    tokens = loaded.tokens(request.prompt)
    if not 1 <= len(tokens) <= most:
        raise ValueError(f"the prompt must have 1..{most} tokens, not {len(tokens)}")
    return tokens
