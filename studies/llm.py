"""A language model in integers: text, and its distance to the same model in float64.

The model is a program of the streamed engine, in a folder that ``seedbed import`` wrote. Without
one, a small random model is imported here: its text means nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console

from seedbed.flow.importer import program_file, transformer_import
from seedbed.flow.importer.program_figures import CLOCK, figures
from seedbed.flow.importer.program_formats import in_float
from seedbed.flow.importer.transformer_files import Transformer
from seedbed.flow.importer.transformers import Decoder
from seedbed.flow.jobs.program_rtl import emitted_program, show_blocks
from seedbed.flow.run.options import show_table
from seedbed.golden.stream_engine import FloatEngine, StreamEngine
from seedbed.sim.jobs.stream_job import Block, RtlProgram
from seedbed.studies import operation_shares

__all__ = ["PROMPTS", "divergence", "generated", "random_model", "run_llm"]

#: What the texts begin with.
PROMPTS = (
    "The capital of France is",
    "Once upon a time, there was",
    "Water boils at",
    "def fibonacci(n):",
    "The best way to learn is",
)
#: Tokens of a text that are compared, with ``compare``.
COMPARED = 128
#: Sizes of the random model: vectors, the middle of a block, blocks, heads, shared heads.
SIZE, MIDDLE, LAYERS, HEADS, SHARED = 64, 128, 2, 4, 2


def random_model() -> Transformer:
    """Return a small random decoder, whose tokens are bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(
        models.BPE({c: k for k, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    rng = np.random.default_rng(1)
    kept = SIZE * SHARED // HEADS
    shapes = {
        "self_attn.q_proj": (SIZE, SIZE), "self_attn.k_proj": (kept, SIZE),
        "self_attn.v_proj": (kept, SIZE), "self_attn.o_proj": (SIZE, SIZE),
        "mlp.gate_proj": (MIDDLE, SIZE), "mlp.up_proj": (MIDDLE, SIZE),
        "mlp.down_proj": (SIZE, MIDDLE),
    }  # fmt: skip
    tensors = {"model.embed_tokens.weight": rng.normal(size=(256, SIZE))}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for name, shape in shapes.items():
            tensors[f"{at}.{name}.weight"] = rng.normal(size=shape) / np.sqrt(shape[1])
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{name}.weight"] = rng.uniform(0.5, 2, SIZE)
    tensors["model.norm.weight"] = rng.uniform(0.5, 2, SIZE)
    tensors = {name: each.astype(np.float32) for name, each in tensors.items()}
    model = Decoder(heads=HEADS, shared=SHARED)
    return Transformer(Path("random"), model, tensors, tokenizer, 1024, frozenset(), {})


def generated(
    engine: FloatEngine | StreamEngine | RtlProgram,
    tokens: np.ndarray,
    count: int,
    ends: frozenset[int],
) -> list[int]:
    """Return the most probable tokens that follow, one after another, at most ``count``."""
    engine.start()
    found: list[int] = []
    while len(found) < count and not ends & {*found[-1:]}:
        found.append(int(engine.run(tokens)[-1].argmax()))
        tokens = np.array(found[-1:])
    return found


def divergence(wanted: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Return KL divergences in nats of distributions from wanted ones, both as logits."""
    a, b = (each - each.max(axis=1, keepdims=True) for each in (wanted, logits))
    a, b = (each - np.log(np.exp(each).sum(axis=1, keepdims=True)) for each in (a, b))
    return (np.exp(a) * (a - b)).sum(axis=1)


def run_llm(
    model: Path | None, build: Path, console: Console, *, prompts: Sequence[str], count: int,
    texts: Sequence[Path] = (), compare: bool = False, rtl: bool = False,
) -> None:  # fmt: skip
    """Print texts, tokens a second, and with ``compare`` the distance to float64.

    Parameters
    ----------
    model
        The folder of an import; ``None``: a small random model.
    build
        The random model is written here.
    prompts
        What texts begin with.
    count
        Tokens of a text.
    texts
        With ``compare``, files of which the first tokens are compared, :data:`COMPARED` of them.
    rtl
        The first text is made by the emitted Verilog, too, and is all that is made.

    Raises ``ValueError`` for a folder without an import, and ``OSError``.
    """
    contents = {path: transformer_import.text_of(path) for path in texts}
    if model is None:
        model = build / "demo" / "llm"
        plan = transformer_import.plan(random_model(), "plain")
        transformer_import.write(plan, model, transformer_import.CALIBRATION, None)
        console.print("The model is random, and so is its text.")
    loaded = program_file.read(model)
    program, parameters = loaded.program, dict(loaded.parameters)
    if program.vectors[program.result].length < loaded.tokenizer.get_vocab_size():
        raise ValueError(f"{model} has no language model: its result has no logit for each token")
    engine = StreamEngine(program, parameters)
    if rtl:
        block = _in_rtl(engine, loaded, prompts[0], count, build, console)
        operation_shares.add(build / "demo/operations", model.name, block, console)
        return
    other = in_float(program, parameters) if compare else None
    seconds, tokens = 0.0, 0
    for prompt in prompts:
        first = loaded.tokens(prompt)
        if not len(first):
            raise ValueError("a prompt must have a token")
        start = perf_counter()
        found = generated(engine, first, count, loaded.ends)
        seconds += perf_counter() - start
        tokens += len(found)
        console.print(prompt, end="", markup=False, highlight=False, style="bold", soft_wrap=True)
        console.print(loaded.tokenizer.decode(found), markup=False, highlight=False, soft_wrap=True)
        if other:
            wanted = generated(other, first, count, loaded.ends)
            same = next((k for k, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
                        len(found))  # fmt: skip
            console.print(
                f"  {same} of {len(found)} tokens are those of float64.",
                style="dim",
                soft_wrap=True,
            )
            if same < len(found):
                console.print(_explained(other, first, wanted, same), style="dim", soft_wrap=True)
    console.print(
        f"In integers, this machine gives {tokens / seconds:.2f} tokens/s.", soft_wrap=True
    )
    core = figures(program, loaded.places, 0, tokens=1, context=128, vectors=1)
    console.print(
        f"Predicted of the core with 64 bytes a cycle at {CLOCK / 1e6:.0f} MHz, after 128 tokens: "
        f"{core.per_second:,.1f} tokens/s, {core.per_gigabyte:.2f} for each GB/s.",
        soft_wrap=True,
    )
    if other:
        _compared(engine, other, loaded, contents, console)


def _in_rtl(
    engine: StreamEngine, loaded: program_file.Loaded, prompt: str, count: int, build: Path,
    console: Console,
) -> Block:  # fmt: skip
    """Make a text in the emitted Verilog, every logit that of the model; return its last block."""
    first = loaded.tokens(prompt)
    if not len(first):
        raise ValueError("a prompt must have a token")
    with emitted_program(
        engine, block=len(first), context=len(first) + count, vectors=1, build=build,
        console=Console(stderr=True),
    ) as core:  # fmt: skip
        found = generated(core, first, count, loaded.ends)
    console.print(prompt, end="", markup=False, highlight=False, style="bold", soft_wrap=True)
    console.print(loaded.tokenizer.decode(found), markup=False, highlight=False, soft_wrap=True)
    show_blocks(core, console)
    return core.blocks[-1]


def _explained(other: FloatEngine, first: np.ndarray, wanted: list[int], same: int) -> str:
    """Say by how much the two most probable tokens differ in float64 where texts part."""
    other.start()
    logits = other.run(np.concatenate([first, wanted[:same]]).astype(np.int64))[-1]
    low, high = np.sort(logits)[-2:]
    return (
        f"  There, the two most probable tokens of float64 differ by a factor of "
        f"{np.exp(high - low):.3f}."
    )


def _compared(
    engine: StreamEngine, other: FloatEngine, loaded: program_file.Loaded,
    texts: Mapping[Path, str], console: Console,
) -> None:  # fmt: skip
    fraction = loaded.program.vectors[loaded.program.result].fraction
    rows = []
    for path, text in texts.items():
        tokens = loaded.tokens(text)[:COMPARED]
        engine.start()
        other.start()
        wanted, found = other.run(tokens), np.ldexp(engine.run(tokens).astype(float), -fraction)
        each = divergence(wanted, found)
        equal = (wanted.argmax(axis=1) == found.argmax(axis=1)).mean()
        rows.append([path.stem, len(tokens), f"{each.mean():.4f}", f"{each.max():.4f}",
                     f"{100 * equal:.1f} %"])  # fmt: skip
    if rows:
        show_table(
            console, ["text", "tokens", "divergence", "greatest", "most probable equal"], rows
        )
