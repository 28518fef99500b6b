import json
from dataclasses import replace

import pytest

from seedbed.flow.demos import elasticzo
from seedbed.flow.demos.elasticzo import Settings, run_elasticzo

SETTINGS = Settings(method="cls1", epochs=3, batch=128)


def without_times(result):
    return [{n: v for n, v in each.items() if n != "seconds"} for each in result["history"]]


def test_a_training_is_written_and_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    whole = run_elasticzo(None, tmp_path / "whole", SETTINGS, console=None)
    assert {path.suffix for path in (tmp_path / "whole").iterdir()} == {".json", ".npz", ".png"}
    assert json.loads((tmp_path / "whole" / "elasticzo-cls1.json").read_text()) == whole
    assert len(whole["history"]) == 3
    epoch = elasticzo._epoch

    def interrupted(*arguments):
        if arguments[3] == 2:
            raise KeyboardInterrupt
        return epoch(*arguments)

    monkeypatch.setattr(elasticzo, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_elasticzo(None, tmp_path / "parts", SETTINGS, console=None)
    done = []

    def counted(*arguments):
        done.append(arguments[3])
        return epoch(*arguments)

    monkeypatch.setattr(elasticzo, "_epoch", counted)
    parts = run_elasticzo(None, tmp_path / "parts", SETTINGS, console=None)
    assert done == [2]
    assert without_times(parts) == without_times(whole)
    # A checkpoint that is damaged is none.
    (checkpoint,) = (tmp_path / "parts").glob("*.npz")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-40])
    again = run_elasticzo(None, tmp_path / "parts", SETTINGS, console=None)
    assert done == [2, 0, 1, 2]
    assert without_times(again) == without_times(whole)


def test_another_seed_is_another_training(tmp_path):
    short = replace(SETTINGS, epochs=1)
    first = run_elasticzo(None, tmp_path, short, console=None)
    second = run_elasticzo(None, tmp_path, replace(short, seed=1), console=None)
    assert first["history"][0]["loss"] != second["history"][0]["loss"]


def test_the_command_prints_a_table(called, tmp_path):
    code, printed, _ = called(["demo", "elasticzo", "--epochs", "1", "--build", "b"], tmp_path)
    assert not code
    assert "ElasticZO-INT8, full-zo, digits" in printed
    assert (tmp_path / "b" / "demo" / "digits" / "elasticzo-full-zo.png").is_file()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "cls3"], "method must be one of full-zo, cls2, cls1, full-bp, not 'cls3'"),
        (["--epochs", "0"], "epochs must be in 1..10000, not 0"),
        (["--batch", "2000"], "batch must be at most 1097, the images, not 2000"),
        (["--magnitude", "64"], "magnitude must be in 1..63, not 64"),
        (["--fraction", "9"], "fraction must be in 0..8, not 9"),
    ],
)
def test_bad_input_is_one_sentence(called, tmp_path, words, sentence):
    code, _, printed = called(["demo", "elasticzo", *words], tmp_path)
    assert code == 2
    assert sentence in printed
