"""A user's network that is fine-tuned on a user's data: in the model, in Verilog, on a board."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file

from seedbed.boards import apps, virtual
from seedbed.flow.cores import networks, registry, settings
from seedbed.flow.importer import imported, state_dict
from seedbed.flow.importer.model import Model, Origin
from seedbed.golden import network as floating
from seedbed.golden.instantft import InstantFt
from seedbed.golden.zo_trainer import ZoTrainer
from seedbed.spec.network import TINY

#: The configuration of the virtual board's quick simulation, and a small one of the other core.
PARAMS = {
    "instantft": {"beat_bits": 64, "rank": 2, "lanes": 8, "ways": 2, "entries": 256},
    "zo_trainer": {"lanes": 8, "ways": 2, "tail": 1},
}
#: Cores, and options of a training that learns.
LEARNS = {
    "instantft": ["--rate", "0.1", "--epochs", "12"],
    "zo_trainer": ["--batch", "4", "--epochs", "6"],
}
#: Files of what was learned.
LEARNED = {
    "instantft": ["adapters.safetensors", "model.onnx"],
    "zo_trainer": ["weights.safetensors", "model.onnx"],
}


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A folder as an import leaves it, of a network that has learned nothing, and data."""
    folder = tmp_path_factory.mktemp("mine")
    rng = np.random.default_rng(3)
    origin = Origin("picture", [1, 6, 6], "scores", "Softmax")
    model = Model(TINY, floating.init(TINY, rng), [], origin)
    (folder / "net").mkdir()
    (folder / "net" / "network.toml").write_text(networks.toml(TINY))
    (folder / "net" / "weights.safetensors").write_bytes(state_dict.write(model))
    for core, params in PARAMS.items():
        text = settings.toml(registry.find(core), {**params, "network": "network.toml"})
        (folder / "net" / f"{core}.toml").write_text(text)
    labels = np.arange(100) % 5
    patterns = rng.integers(0, 2, (5, 1, 6, 6)) * 200
    images = patterns[labels] + rng.integers(0, 50, (100, 1, 6, 6))
    np.savez(folder / "data.npz", images=images.astype(np.uint8), labels=labels)
    return folder


def tune(called, folder, core, *options, out="out"):
    words = ["tune", "net", "--data", "data.npz", "--core", core, "-o", out, *options]
    return called(words, folder)


@pytest.fixture
def folder(mine, tmp_path):
    shutil.copytree(mine, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("core", PARAMS)
def test_a_network_learns_and_is_written(core, folder, called):
    code, out, _ = tune(called, folder, core, *LEARNS[core])
    assert code == 0
    assert out.startswith("80 images of data.npz to train on, 20 other ones\nepoch 1: ")
    found = json.loads((folder / "out" / "tune.json").read_text())
    assert found["after"] >= found["before"] + 0.4
    assert f"{100 * found['after']:.1f} %" in out
    with np.load(folder / "data.npz") as file:
        data = dict(file)
    held = np.random.default_rng([0, 0]).permutation(100)[:20]
    images, labels = data["images"][held], data["labels"][held]
    # The core's model has the same classes with what was written, and in floats almost all.
    written = state_dict.read(folder / "out" / "weights.safetensors", folder / "net/network.toml")
    assert classes(core, folder / "out", written, images, labels) == found["after"]
    model = ReferenceEvaluator(str(folder / "out" / "model.onnx"))
    assert (model.input_names, model.output_names) == (["picture"], ["scores"])
    (shares,) = model.run(None, {"picture": images.astype(np.float32) / np.float32(255)})
    assert (shares.argmax(axis=1) == labels).mean() >= found["after"] - 0.1
    assert ((shares >= 0) & (shares <= 1)).all()


def test_what_was_learned_is_exported(folder, called):
    """The packets give the accuracy of the held-out images, and another rank is refused."""
    assert tune(called, folder, "instantft", *LEARNS["instantft"])[0] == 0
    after = json.loads((folder / "out" / "tune.json").read_text())["after"]
    with np.load(folder / "data.npz") as file:
        held = np.random.default_rng([0, 0]).permutation(100)[:20]
        images, labels = file["images"][held], file["labels"][held]
    np.save(folder / "held.npy", images)
    words = ["export", "out/weights.safetensors", "--core", "instantft", "--vector", "held.npy"]
    words += ["--adapters", "out/adapters.safetensors", "--config", "out/instantft.toml"]
    assert called([*words, "-o", "hex"], folder)[0] == 0
    classes = np.load(folder / "hex" / "instantft_classes.npy").ravel()
    assert (classes == labels).mean() == after
    code, out, err = called([*words, "-o", "other", "--set", "rank=4"], folder)
    assert (code, out) == (2, "")
    assert "out/adapters.safetensors must have 'conv1.lora_a' of F32 in [4, 36]" in err
    assert not (folder / "other").exists()


def classes(core, folder, written, images, labels):
    """Return the share that a core's model classifies correctly with the files of a training."""
    found = registry.find(core)
    config = found.configure(settings.read(found, (), folder / f"{core}.toml"))
    if core == "zo_trainer":
        # A layer's exponent stays that of the first weights.
        start = load_file(folder.parent / "net" / "weights.safetensors")
        exponents = {
            layer.name: int(np.frexp(np.abs(start[f"{layer.name}.weight"]).max())[1]) - 7
            for layer in TINY.layers
        }
        whole = {
            name: np.ldexp(written.parameters[f"{name}.weight"], -exponent).astype(np.int64)
            for name, exponent in exponents.items()
        }
        return (ZoTrainer(config, whole, exponents).infer(images) == labels).mean()
    weights = {
        name: np.floor(value * config.weights.one + 0.5).astype(np.int64)
        for name, value in written.parameters.items()
    }
    model = InstantFt(config, weights, np.random.default_rng(0), 0)
    path = folder / imported.ADAPTERS
    model.lora.a, model.lora.b = imported.read_adapters(path, TINY, config.rank, config.adapters)
    return (model.predict(model.base(images)) == labels).mean()


@pytest.mark.parametrize("core", PARAMS)
def test_the_verilog_learns_the_same(core, folder, called, kept):
    """A bit that differs would be an error: see the tests of the jobs."""
    options = ["--images", "12", "--held", "4", "--epochs", "2", "--seed", "5"]
    assert tune(called, folder, core, *options)[0] == 0
    words = [*options, "--rtl", "--build", str(kept)]
    code, out, _ = tune(called, folder, core, *words, out="rtl")
    assert code == 0
    assert f"the emitted Verilog of {core} gives the same, bit for bit" in out
    for name in LEARNED[core]:
        assert (folder / "rtl" / name).read_bytes() == (folder / "out" / name).read_bytes()
    first, second = (json.loads((folder / d / "tune.json").read_text()) for d in ("out", "rtl"))
    assert (first.pop("cycles"), first.pop("bit_exact")) == (None, False)
    assert min(second.pop("cycles").values()) > 0
    assert second.pop("bit_exact")
    assert first == second


def test_the_board_learns_the_same(folder, called, kept):
    design = apps.find("instantft", "tiny")
    program = virtual.executable(design, "instantft-tiny", build=Path(kept))
    options = ["--images", "12", "--held", "4", "--epochs", "2"]
    assert tune(called, folder, "instantft", *options)[0] == 0
    with virtual.start(program) as board:
        words = [*options, "--board", board.port]
        code, out, _ = tune(called, folder, "instantft", *words, out="board")
        assert code == 0
        # Another network is on another board.
        words = [*words, "--set", "rank=4", "--force"]
        code, _, err = tune(called, folder, "instantft", *words, out="board")
    assert (code, err.count("\n")) == (2, 1)
    assert "built from the same sources and with the same parameters" in err
    assert "the adapters are those of the model, bit for bit" in out
    for name in LEARNED["instantft"]:
        assert (folder / "board" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_a_board_has_the_parameters_of_a_file(mine, tmp_path):
    found = apps.find("instantft", board="ulx3s-85f", config=mine / "net" / "instantft.toml")
    assert found.config == apps.find("instantft", "tiny").config
    path = tmp_path / "other.toml"
    path.write_text("beat_bits = 128\n")
    for name, variant, sentence in (
        ("instantft", None, r"other\.toml: beat_bits must be 64 on a board, not 128"),
        ("instantft", "tiny", "--config and --variant do not go together"),
        ("noise", None, "noise takes no --config; instantft and zo_trainer take one"),
    ):
        with pytest.raises(ValueError, match=sentence):
            apps.find(name, variant, config=path)


@pytest.mark.parametrize("core", PARAMS)
def test_finished_epochs_are_kept(core, folder, called, monkeypatch):
    """An interruption in the third epoch: the next call trains in this one and in those after."""
    kind = {"instantft": InstantFt, "zo_trainer": ZoTrainer}[core]
    name = {"instantft": "steps", "zo_trainer": "step"}[core]
    train, steps = getattr(kind, name), []
    options = ["--images", "16", "--epochs", "5"]

    def interrupted(*given, **named):
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return train(*given, **named)

    monkeypatch.setattr(kind, name, interrupted)
    code, out, err = tune(called, folder, core, *options)
    assert (code, err) == (130, "interrupted: finished work is kept\n")
    assert [line.split(":")[0] for line in out.splitlines()[1:]] == ["epoch 1", "epoch 2"]
    assert not (folder / "out").exists()
    assert tune(called, folder, core, *options)[0] == 0
    assert len(steps) == 6
    other = tune(called, folder, core, *options, "--build", "other", out="whole")
    assert other[0] == 0
    for path in (folder / "whole").iterdir():
        assert (folder / "out" / path.name).read_bytes() == path.read_bytes()


def test_a_training_goes_on_from_what_was_learned(folder, called):
    assert tune(called, folder, "instantft", "--epochs", "2")[0] == 0
    shutil.move(folder / "net", folder / "first")
    shutil.copytree(folder / "out", folder / "net")
    assert tune(called, folder, "instantft", "--epochs", "1", out="more")[0] == 0
    first, second = (json.loads((folder / d / "tune.json").read_text()) for d in ("out", "more"))
    assert second["before"] == first["after"]
    # Without --force, files that are there stay.
    code, out, err = tune(called, folder, "instantft", out="more")
    assert (code, out) == (2, "")
    assert err == "error: more/network.toml exists already; --force overwrites it\n"


def spoil(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def data(images, labels):
    return lambda folder: np.savez(folder / "data.npz", images=images, labels=labels)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--core", "gemv"], "core must be one of instantft, zo_trainer, not 'gemv'"),
        (["--batch", "8"], "--batch does not go with --core instantft"),
        (["--core", "zo_trainer", "--rate", "1"], "--rate does not go with --core zo_trainer"),
        (["--rtl", "--board", "none"], "--rtl and --board do not go together"),
        (["--resume"], "--resume goes with --board"),
        (["--board", "none"], "no port is called none: is the board connected?"),
        (["--images", "81"], "the images of data.npz to train on must be in 1..80, not 81"),
        (["--held", "100"], "the held-out images of data.npz must be in 1..99, not 100"),
        (["--epochs", "0"], "epochs must be in 1..65535, not 0"),
        (["--seed", "-1"], "seed must be in 0..4294967295, not -1"),
        (["--rate", "-1"], "the learning rate by the batch must be"),
        (["--core", "zo_trainer", "--magnitude", "5"], "magnitude must be one of 1, 3, 7, 15, not"),
        (["--set", "network=lenet5"], "parameters have another network than net/network.toml"),
        (["--set", "lanes=9"], "lanes"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words, sentence, folder, called):
    before = sorted(folder.iterdir())
    code, _, err = tune(called, folder, "instantft", *words)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: ")
    assert sentence in err
    assert [path for path in sorted(folder.iterdir()) if path.name != "build"] == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: (f / "net/weights.safetensors").unlink(), "net/weights.safetensors is missing:"),
        (lambda f: (f / "net/network.toml").unlink(), "net/network.toml is missing: 'seedbed impo"),
        (spoil("net/weights.safetensors", b"none"), "net/weights.safetensors is not a complete"),
        (spoil("net/instantft.toml", b"rank = 0"), "rank must be in 1..32, not 0"),
        (spoil("net/adapters.safetensors", b"none"), "net/adapters.safetensors is not a complete"),
        (spoil("data.npz", b"none"), "data.npz must be a file .npz with images and labels, a fo"),
        (data(np.full((9, 6, 6), 2.0), np.zeros(9, int)), "data.npz: images must be in 0..1, as"),
        (data(np.zeros((1, 6, 6)), np.zeros(1, int)), "data.npz has one image, and none to hold"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(change, sentence, folder, called):
    change(folder)
    code, out, err = tune(called, folder, "instantft")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (folder / "out").exists()
