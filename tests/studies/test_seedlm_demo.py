"""Compressed networks: from trained weights to a row of the report, in small."""

import json

import pytest

from seedbed.flow.jobs.data import DataError
from seedbed.flow.report.sections import sections
from seedbed.spec import SeedlmConfig
from seedbed.studies import seedlm

#: A search and a core of seconds.
SMALL = SeedlmConfig(block=4, latent=2, width=6)


def test_weights_go_through_file_and_rtl_into_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(seedlm, "CONFIGS", {"small": SMALL})
    result = seedlm.run_seedlm(None, tmp_path / "demo" / "digits", build=tmp_path)
    (row,) = result["rows"]
    # 18 bits a block of 4 weights, in rows of whole bytes; 32 x 64 products in 3 beats a row.
    assert row["bits"] == 18 / 4
    assert row["products"] == 2048
    assert row["cycles"] > 32 * 3
    # Seeds of 6 bits are too few for the search to win.
    assert 0 < row["plain"] < row["error"] < 0.2
    assert result["before"] - 10 < row["accuracy"] < result["before"] + 2
    # The product's error is the weights', seen through one image.
    assert row["product_error"] == pytest.approx(row["error"], rel=0.7)
    (found,) = seedlm.rows(tmp_path / "demo")
    assert found.config == "digits, small"
    assert found.figures["accuracy_after"] == row["accuracy"]
    report = json.loads(json.dumps([found.to_json()]))
    titles = [table.title for table in sections(report)]
    assert titles == ["Compressed networks", "Commands"]


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a folder"):
        seedlm.run_seedlm(tmp_path / "none", tmp_path / "out", build=tmp_path)
    assert not (tmp_path / "out").exists()
