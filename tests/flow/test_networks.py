"""Networks and parameters in TOML files, as a user brings them."""

import json

import pytest

from seedbed.flow.cores import networks, settings
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.spec.network import NETWORKS, TINY, Layer, NetworkConfig

CNN = """
input = [3, 8, 8]

[[layer]]
kind = "conv"
name = "first"
outputs = 4
kernel = 3
padding = 1
pool = 2

[[layer]]
kind = "dense"
name = "last"
outputs = 3
relu = false
"""


STRIDED = NetworkConfig(
    (Layer(name="a", kind="conv", inputs=(3, 9, 8), outputs=4, kernel=3, padding=1, stride=2),)
)


@pytest.mark.parametrize("network", [*NETWORKS.values(), STRIDED], ids=[*NETWORKS, "strided"])
def test_a_network_is_read_as_it_is_written(network, tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(networks.toml(network))
    found = networks.read(path)
    assert found == network
    assert str(found) == str(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[3, 8, 8]", "[3, 8", "is not TOML"),
        ("input", "inputs", "a network has 'input' and 'layer', not 'inputs'"),
        ("input = [3, 8, 8]", "", "first: "),
        ("[3, 8, 8]", "[3, 8]", "first: inputs"),
        ("outputs = 4", "outputs = 0", "first: outputs"),
        ("outputs = 4", "", "first: a layer needs 'outputs'"),
        ("kernel = 3", "strides = 2", "first: a layer has no 'strides'; it has name, kind"),
        ("kernel = 3", "kernel = 3\nstride = 0", "first: stride must be in 1..65535, not 0"),
        ("pool = 2", "pool = 9", "first: pool must be in 1..8, not 9"),
        ("[[layer]]", "[[layers]]", "a network has 'input' and 'layer', not 'layers'"),
    ],
)
def test_a_file_that_is_no_network_is_refused(old, new, said, tmp_path, called):
    (tmp_path / "net.toml").write_text(CNN.replace(old, new))
    status, out, err = called(["verilog", "conv_engine", "--set", "network=net.toml"], tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith("error: net.toml")
    assert said in err
    assert err.count("\n") == 1


def test_a_network_that_is_not_there(tmp_path, called):
    status, _, err = called(["ports", "zo_trainer", "--set", "network=no.toml"], tmp_path)
    assert (status, err) == (2, "error: no.toml cannot be read: No such file or directory\n")


@pytest.mark.parametrize("core", ["conv_engine", "instantft", "zo_trainer"])
def test_my_network_is_in_the_header_of_the_verilog(core, tmp_path, called):
    (tmp_path / "net.toml").write_text(networks.toml(TINY))
    words = ["verilog", core, "--set", "lanes=8", "--set", "network=net.toml", "-o", "-"]
    status, out, err = called(words, tmp_path)
    assert (status, err) == (0, "")
    # The lines of the header are wrapped.
    assert f"seedbed verilog {core} --set lanes=8 --set network=net.toml" in out
    known = called([*words[:5], "network=tiny", "-o", "-"], tmp_path)[1]
    assert out.partition("module")[2] == known.partition("module")[2]


@pytest.mark.parametrize("core", [*CORES.values(), *WRAPPERS.values()], ids=lambda core: core.name)
def test_the_printed_parameters_are_a_file_of_the_defaults(core, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(settings.toml(core))
    assert core.configure(settings.read(core, [], path)) == core.configure()


def test_parameters_of_a_file_and_of_options(tmp_path, called):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "net.toml").write_text(networks.toml(TINY))
    (tmp_path / "mine.toml").write_text('lanes = 4\nnetwork = "nets/net.toml"\nways = 2\n')
    words = ["sim", "conv_engine", "--config", "mine.toml", "--set", "lanes=8", "--json"]
    (tmp_path / "folder").mkdir()
    words[3] = "../mine.toml"
    status, out, _ = called(words, tmp_path / "folder")
    assert status == 0
    params = json.loads(out)["params"]
    assert (params["lanes"], params["ways"], params["network"]) == (8, 2, "../nets/net.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lines = 3", "conv_engine has no parameter 'lines' (did you mean 'lanes'?); it has"),
        ('network = "no.toml"', "no.toml cannot be read: No such file or directory"),
        ("lanes = ", "is not TOML"),
    ],
)
def test_a_file_of_parameters_that_is_not_valid(text, said, tmp_path, called):
    (tmp_path / "mine.toml").write_text(text)
    status, out, err = called(["sim", "conv_engine", "--config", "mine.toml"], tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith("error: mine.toml")
    assert said in err
