"""The language model tuned in the core: golden model, emitted Verilog, and bad input."""

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress.mask import read_mask, write_mask
from seedbed.flow.jobs import lm_core, lm_integer, lm_task, lm_text
from seedbed.golden import language_model
from seedbed.golden.kept_matrix import KeptMatrices
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.gemv_cosim import RtlMatrices
from seedbed.spec import SEEDLM, SparseMacConfig

SPARSE = SparseMacConfig(columns=64)
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def task():
    return lm_task.embedded(QUIET)


@pytest.fixture
def small(task, monkeypatch):
    """The trained small model is at hand."""
    monkeypatch.setattr(lm_core, "embedded", lambda progress: task)


@pytest.fixture(scope="module")
def made(task, tmp_path_factory):
    return lm_integer.setup(task, tmp_path_factory.mktemp("made"), SPARSE, 0.03, console=QUIET)


@pytest.fixture(scope="module")
def coded(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coded")
    return lm_integer.setup(task, folder, SPARSE, 0.03, decode="trellis", console=QUIET)


def job(**changed):
    return lm_core.Job(**{"fraction": 0.01, "rate": 0.03, "steps": 2, "batch": 4, **changed})


def run(folder, *, rtl=False, console=None, **changed):
    options = {name: changed.pop(name) for name in ("resume", "pauses") if name in changed}
    return lm_core.run_core(
        None, folder / "out", job(**changed), rtl=rtl, build=folder, console=console, **options
    )


def test_integers_are_the_packed_and_kept_weights(made):
    for name, of in made.matrices.items():
        weights = of.dense(SEEDLM[4]) * of.unit
        rows, columns, values = of.entries.T
        weights[rows, columns] += values * of.step
        want = made.restored[name].T if name == "embedding.weight" else made.restored[name]
        # float32 in the file, and a kept difference in 16 bits of another range.
        error = np.abs(weights - want)
        kept = np.zeros(want.shape, bool)
        kept[rows, columns] = True
        limit = 2.0**-14 if of.plain else 2.0**-23 * np.abs(want).max()
        assert error[~kept].max() <= limit
        assert error[kept].max(initial=0) <= of.step
        assert len(values) < want.size


def test_integers_are_the_rows_of_a_trellis_code(task, coded):
    for name, of in coded.matrices.items():
        weights = of.dense(lm_integer.PACKINGS["trellis"]) * of.unit
        if name == "attention.weight":
            want = task.parameters[name][0]
            assert of.rows == lm_integer.SUMMED
            assert np.abs(weights.sum(axis=0) - want).max() < 2.0**-12 * np.abs(want).max()
            continue
        want = coded.restored[name].T if name == "embedding.weight" else coded.restored[name]
        other = np.ones(want.shape, bool)
        other[of.entries[:, 0], of.entries[:, 1]] = False
        assert np.array_equal(weights[other], want[other])


@pytest.mark.parametrize("base", ["made", "coded"])
def test_the_perturbation_and_the_range_of_values(base, request):
    spread = np.std(np.arange(-255, 256, 2))
    for of in request.getfixturevalue(base).matrices.values():
        if not len(of.entries):
            continue
        eps = spread * of.step * 2**of.scale
        peak, ratio = np.abs(of.entries[:, 2]).max(), eps / lm_integer.EPS
        assert ratio >= 2**-0.5
        if base == "made" or of.scale:
            assert ratio <= 2**0.5
            assert peak <= 2**15 / lm_integer.ROOM
        else:
            # A finer value would have no room for the largest difference.
            assert ratio <= 2**0.5 or peak > 2**14 / lm_integer.LEAST_ROOM
            assert peak <= 2**15 / lm_integer.LEAST_ROOM


def test_the_mask_is_of_the_largest_gradients(task, made):
    """Transposed or not, the kept weights have the largest squared gradients."""
    squares = lm_task.squared_gradients(task.parameters, task.lines["seen"], lambda: None)
    kept, others = [], []
    for name, of in made.matrices.items():
        if name == "attention.weight":
            continue
        found = squares[name].T if name == "embedding.weight" else squares[name]
        inside = np.zeros(found.shape, bool)
        inside[of.entries[:, 0], of.entries[:, 1]] = True
        kept.append(found[inside])
        others.append(found[~inside])
    assert np.concatenate(kept).min() >= np.concatenate(others).max() * (1 - 1e-5)


def test_a_given_mask_is_transposed(task, tmp_path):
    shapes = {"embedding.weight": (31, 16), "output.weight": (31, 64)}
    indices = {"embedding.weight": np.array([1, 16, 18]), "output.weight": np.array([65])}
    write_mask(tmp_path / "mask", shapes, indices, {})
    found = lm_integer.setup(task, tmp_path, SPARSE, keep=tmp_path / "mask", console=QUIET)
    assert found.matrices["embedding.weight"].entries[:, :2].tolist() == [[0, 1], [1, 0], [2, 1]]
    assert found.matrices["output.weight"].entries[:, :2].tolist() == [[1, 1]]
    assert found.entries == 4


@pytest.mark.parametrize(("base", "decode"), [("made", "seedlm"), ("coded", "trellis")])
def test_perplexity_is_that_of_the_float_model(base, decode, request):
    made = request.getfixturevalue(base)
    engine = KeptMatrices(lm_integer.PACKINGS[decode], SPARSE, made.matrices)
    want = language_model.perplexity(made.restored, *made.held)
    assert made.model.perplexity(engine, *made.held) == pytest.approx(want, rel=1e-3)


def test_the_tuning_lowers_the_perplexity_and_is_resumed(small, tmp_path, monkeypatch):
    many = {"steps": 40, "batch": 32}
    whole = run(tmp_path / "a", **many)
    found = whole["perplexity"]
    command = "--integer --fraction 0.01 --steps 40 --batch 32 --rate 0.03 --clip 1.0 --spread 4"
    assert whole["command"] == f"seedbed demo lm {command} --seed 0"
    assert found["after"] < found["before"]
    assert found["before"] == pytest.approx(found["compressed"], rel=1e-3)
    assert (len(whole["losses"]), whole["entries"]) == (40, 109)
    assert json.loads((tmp_path / "a" / "out" / "lm_integer.json").read_text()) == whole
    assert run(tmp_path / "b", **many)["values"] == whole["values"]
    assert run(tmp_path / "b", **many, seed=1)["values"] != whole["values"]
    step = lm_core.Job.number

    def interrupted(self, number):
        if number == 25:
            raise KeyboardInterrupt
        return step(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(lm_core.Job, "number", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "c", **many)
    part = json.loads((tmp_path / "c" / "out" / "lm_integer.json").read_text())
    assert len(part["losses"]) == 20
    done = []
    monkeypatch.setattr(lm_core.Job, "number", lambda s, n: done.append(n) or step(s, n))
    again = run(tmp_path / "c", **many, resume=True)
    assert done == list(range(20, 40))
    for name in ("perplexity", "losses", "slopes", "values"):
        assert again[name] == whole[name]


@pytest.fixture(scope="module")
def emitted(task, tmp_path_factory):
    """A short job on the emitted Verilog, and the same in integers."""
    folder, shown = tmp_path_factory.mktemp("rtl"), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_core, "embedded", lambda progress: task)
        found = run(folder, rtl=True, characters=3, console=Console(file=shown, width=120))
        return found, run(folder, characters=3), shown.getvalue(), folder


def test_the_emitted_verilog_tunes_as_the_model(emitted, task, tmp_path):
    found, want, shown, _ = emitted
    for name in ("perplexity", "losses", "slopes", "values", "input"):
        assert found[name] == want[name]
    # Which matrices have kept weights depends on the training, and so on the processor.
    made = lm_integer.setup(task, tmp_path, SPARSE, 0.01, console=QUIET)
    kept = sum(bool(len(of.entries)) for of in made.matrices.values())
    assert found["commands"]["load"] == found["commands"]["update"] / 2 == kept > 1
    assert found["commands"]["product"] > 4 * 40
    assert min(found["cycles"].values()) > 0
    assert "updates of the emitted Verilog are the golden model's, bit for bit." in shown
    assert "109 kept weights were tuned in 2 steps of 2 x 4 windows." in shown


def test_pauses_change_the_cycles_alone(small, emitted):
    found, *_, folder = emitted
    again = run(folder, rtl=True, characters=3, pauses=8, steps=1)
    assert again["losses"][0] == found["losses"][0]
    each = [part["cycles"]["product"] / part["commands"]["product"] for part in (again, found)]
    assert each[0] > 1.2 * each[1]


def test_the_emitted_verilog_tunes_on_a_trellis_code(small, tmp_path):
    settings = {"characters": 3, "steps": 1, "decode": "trellis"}
    shown = StringIO()
    found = run(tmp_path, rtl=True, console=Console(file=shown, width=120), **settings)
    want = run(tmp_path, **settings)
    for name in ("perplexity", "losses", "slopes", "values", "input"):
        assert found[name] == want[name]
    assert found["command"].endswith(" --seed 0 --decode trellis")
    assert json.loads((tmp_path / "out" / "lm_trellis_rtl.json").read_text()) == found
    assert json.loads((tmp_path / "out" / "lm_trellis_integer.json").read_text()) == want
    before, after, float32 = (found["perplexity"][k] for k in ("before", "after", "float32"))
    share = 100 * (before - after) / (before - float32)
    sentence = f"The tuning regains {share:.1f} % of what 4 bits cost."
    assert (sentence in shown.getvalue()) == (before > float32)


@pytest.mark.parametrize("change", ["weight", "value"])
def test_a_wrong_result_of_the_core_is_found(small, emitted, monkeypatch, change):
    """The core and the model are given one number that differs."""
    *_, folder = emitted
    whole = RtlMatrices.__init__

    def wrong(self, config, cosim, matrices, *rest):
        whole(self, config, cosim, matrices, *rest)
        if change == "weight":
            self._model._dense["attention.weight"] = matrices["attention.weight"].fields + 1
        else:
            self._model.values["output.weight"][3] += 1

    monkeypatch.setattr(RtlMatrices, "__init__", wrong)
    name = {"weight": "attention", "value": "output"}[change]
    with pytest.raises(Mismatch, match=rf"{name}.weight: row \d+ of the product of vector \d+ is "):
        run(folder, rtl=True, characters=3)


def test_more_entries_than_the_memory_are_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"holds 8192 entries, but \d+ weights are kept"):
        run(tmp_path, fraction=0.8)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"embedding.weight": (16, 31)}, r"'embedding.weight' in the shape \[16, 31\], but it is "),
        ({"output.weight": (3, 3)}, r"'output.weight' in the shape \[3, 3\], but it is \[31, 64\]"),
        ({"other.weight": (3, 3)}, "keeps weights of tensor 'other.weight', which is not in "),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(small, tmp_path, shapes, message):
    write_mask(tmp_path / "mask", shapes, {name: np.array([0]) for name in shapes}, {})
    with pytest.raises(ValueError, match=message):
        run(tmp_path, keep=tmp_path / "mask")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fraction": 0.0}, "the fraction must be above 0 and below 1, not 0.0"),
        ({"steps": 0}, "steps must be in 1..65536, not 0"),
        ({"batch": 0}, "batch must be in 1..65536, not 0"),
        ({"characters": 0}, "characters must be in 1..2147483648, not 0"),
        ({"seed": 8192}, "seed must be in 0..8191, not 8192"),
        ({"rate": float("nan")}, "the rate must be above 0, not nan"),
        ({"clip": 0.0}, "the clip must be above 0, not 0.0"),
        ({"decode": "lut4"}, "decode must be one of seedlm, trellis, not 'lut4'"),
        ({"spread": 40}, "spread must be in 0..39, not 40"),
    ],
)
def test_bad_settings_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        job(**changed)


def test_a_text_without_lines_to_hold_out_is_refused(task, tmp_path):
    short = replace(task, lines={**task.lines, "unseen": task.lines["unseen"][:3]})
    with pytest.raises(ValueError, match="the text 'unseen' must have 4 lines or more"):
        lm_integer.setup(short, tmp_path, SPARSE, console=QUIET)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rtl", "--integer"], "--rtl and --integer exclude each other"),
        (["--rtl", "--resume"], "--resume goes without --rtl"),
        (["--integer", "--stalls"], "--stalls goes with --rtl"),
        (["--steps", "3"], "--steps goes with --rtl or --integer"),
        (["--seed", "3"], "--seed goes with --rtl or --integer"),
        (["--decode", "trellis"], "--decode goes with --rtl or --integer"),
        (["--integer", "--lines", "3"], "--lines goes with --model"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, sentence, called, tmp_path):
    assert called(["demo", "lm", *words], tmp_path) == (2, "", f"error: {sentence}\n")


def test_the_command(task, called, tmp_path):
    """A folder with a model, and a mask that 'seedbed sensitive' made of it."""
    save_file({n: np.ascontiguousarray(v) for n, v in task.parameters.items()},
              tmp_path / "model.safetensors")  # fmt: skip
    characters = sorted({c for line in lm_text.LINES for c in line})
    numbers = {c: k for k, c in enumerate(["<s>", *characters], start=1)}
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    (tmp_path / "a.txt").write_text("\n".join(lm_text.LINES) + "\n")
    model = ["--model", str(tmp_path), "--build", str(tmp_path)]
    mask = tmp_path / "mask"
    words = ["sensitive", str(tmp_path / "model.safetensors"), "--by", "magnitude"]
    words += ["--fraction", "0.01", "--tensors", lm_task.TENSORS, "-o", str(mask)]
    assert called(words, tmp_path)[0] == 0
    kept = sum(map(len, read_mask(mask)[1].values()))
    words = ["demo", "lm", *model, "--integer", "--steps", "2", "--batch", "3"]
    code, out, _ = called([*words, "--keep", str(mask)], tmp_path)
    assert code == 0
    assert "in integers, after" in out
    assert f"{kept} kept weights were tuned in 2 steps of 2 x 3 windows." in out
    assert load_file(mask)
