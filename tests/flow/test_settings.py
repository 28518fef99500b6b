"""Parameters of every core as the command line takes and shows them; garbage is refused."""

import re
import shlex
from collections import defaultdict
from dataclasses import fields

import pytest

from seedbed import spec
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.cores.settings import defaults, read
from seedbed.flow.report.row import command
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import Layer, NetworkConfig

ALL = CORES | WRAPPERS
PARAMETERS = [
    pytest.param(core, f.name, id=f"{name}-{f.name}")
    for name, core in ALL.items()
    for f in fields(core.config)
    if f.init
]
#: Of every kind that somebody may type: nothing, a word, a number that is not whole, one that is
#: out of every range, several, a switch, and formats that there are not.
GARBAGE = [
    "", ",", "word", "1.5", "6.12", "nan", "-1", "-7", "99999999999", "1,2", "1,,2", "1,word",
    "1.5,2", "true", "None", "Q6", "Q0.12", "Q60.12", "Q4.12,true", "[1, 2]",
]  # fmt: skip
#: What is garbage for all other parameters: no rows that are buffered, and a way of seeding.
VALUES = defaultdict(set, weight_perturb={("used", "")}, lutopt={("seeding", "word")})


@pytest.mark.parametrize(("core", "name"), PARAMETERS)
def test_garbage_is_refused_by_name(core, name):
    default = next(f.default for f in fields(core.config) if f.name == name)
    for word in GARBAGE:
        try:
            params = read(core, [f"{name}={word}"])
            core.configure(params)
        except (TypeError, ValueError) as problem:
            sentence = str(problem)
            assert re.search(rf"\b{name}\b", sentence), (word, sentence)
            assert "must" in sentence or "is no number format" in sentence, (word, sentence)
        else:
            # Some of them mean something: a switch, and several numbers.
            assert type(params[name]) is type(default), (word, params)
            meant = {("true", bool), ("1,2", tuple)}
            assert (word, type(default)) in meant or (name, word) in VALUES[core.name], word


@pytest.mark.parametrize("core", ALL.values(), ids=ALL)
def test_what_is_shown_can_be_given_back(core):
    """Every parameter at once, and each alone: the configuration is the default one."""
    words = [f"{name}={value}" for name, value in defaults(core).items()]
    assert [word.partition("=")[0] for word in words] == [
        f.name for f in fields(core.config) if f.init
    ]
    assert core.configure(read(core, words)) == core.configure()
    for word in words:
        assert core.configure(read(core, [word])) == core.configure()


@pytest.mark.parametrize(
    ("core", "params"),
    [(core, variant.params) for core in CORES.values() for variant in core.variants.values()],
)
def test_a_row_names_its_configuration_in_words_that_are_taken(core, params):
    words = shlex.split(command("sim", core.name, params))[3:]
    assert words[::2] == ["--set"] * len(params)
    assert core.configure(read(core, words[1::2])) == core.configure(params)


@pytest.mark.parametrize(
    ("name", "words", "params"),
    [
        ("lora", ["widths=84"], {"widths": (84,)}),
        ("lora", ["widths=84,", "rank=0x8"], {"widths": (84,), "rank": 8}),
        ("forward_cache", ["lengths=9,6"], {"lengths": (9, 6)}),
        ("lfsr", ["width=3", "taps=0,1"], {"width": 3, "taps": (0, 1)}),
        ("lfsr", ["width=3", "taps=default"], {"width": 3, "taps": None}),
        ("prng_pool", ["size=3", "lanes=2", "contents=1,-2,0x3"],
         {"size": 3, "lanes": 2, "contents": (1, -2, 3)}),
        ("prng_pool", ["register=False"], {"register": False}),
        ("nf4", ["values=q6.10", "peak_width=12"], {"values": Fixed(16, 10), "peak_width": 12}),
        ("conv_engine", ["network=tiny", "lanes=8", "ways=2"],
         {"network": "tiny", "lanes": 8, "ways": 2}),
        ("tree_grng", ["lfsrs=repaired"], {"lfsrs": "repaired"}),
    ],
)  # fmt: skip
def test_values_of_every_kind(name, words, params):
    core = CORES[name]
    assert read(core, words) == params
    core.configure(params)


@pytest.mark.parametrize("source", ["urng", "pool"])
@pytest.mark.parametrize("name", ["leap", "rounding", "size", "banks", "lanes", "width"])
def test_a_parameter_of_the_other_source_is_checked_too(source, name):
    core = CORES["perturbation"]
    for word in ("", "word", "1.5", "-1"):
        with pytest.raises((TypeError, ValueError), match=rf"^{name} must be"):
            core.configure(read(core, [f"source={source}", f"{name}={word}"]))


@pytest.mark.parametrize(
    "config",
    [
        lambda: spec.UrngConfig(tile=False),
        lambda: spec.PerturbationConfig(lanes=0.0),
        lambda: spec.MacArrayConfig(results=False),
        lambda: spec.MacArrayConfig(weight_peak=0.0),
        lambda: spec.MacArrayConfig(accumulator_width=False),
        lambda: spec.Nf4Config(lanes=False),
        lambda: spec.SeedlmConfig(word_bits=0.0),
        lambda: spec.LfsrConfig(taps="01"),
        lambda: spec.LfsrConfig(taps=3),
        lambda: spec.LoraConfig(values="Q6.12"),
        lambda: Layer(name="a", kind="conv", inputs=5, outputs=1),
        lambda: Layer(name="a", kind="conv", inputs=(1, 2, 3), outputs=1, padding="one"),
        lambda: NetworkConfig(("conv1",)),
    ],
)
def test_what_stands_for_a_number_is_one(config):
    """From Python: what equals 0, or can be walked over, is not taken for what it looks like."""
    with pytest.raises(TypeError, match=r" must be .*, not "):
        config()
