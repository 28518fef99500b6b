import re


def test_the_tour_multiplies_and_learns(called, kept, tmp_path):
    code, printed, _ = called(["tour", "--build", str(kept)], tmp_path)
    assert code == 0
    assert printed.count("product as in the model, bit for bit") == 3
    assert "the adapters are those of the model, bit for bit" in printed
    rises = re.findall(r"images: ([\d.]+) % before, ([\d.]+) % after", printed)
    assert len(rises) == 2
    assert all(float(after) - float(before) > 50 for before, after in rises)
