"""A folder with a language model of four units, whose products are simulated fast."""

import json

import numpy as np
from safetensors.numpy import save_file

WIDTH, UNITS, CHARACTERS = 4, 4, "abcdefg hi"


def write(folder):
    """Write model, characters and a text; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    classes, whole, rng = len(CHARACTERS) + 2, WIDTH + 2 * UNITS, np.random.default_rng(1)
    shapes = {"embedding.weight": (classes, WIDTH)}
    for layer, inputs in (("lstm1", WIDTH), ("lstm2", UNITS)):
        shapes[f"{layer}.input.weight"] = (4 * UNITS, inputs)
        shapes[f"{layer}.recurrent.weight"] = (4 * UNITS, UNITS)
        shapes[f"{layer}.bias"] = (4 * UNITS,)
    shapes["attention.weight"] = (1, whole)
    shapes |= {"output.weight": (classes, whole), "output.bias": (classes,)}
    drawn = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    save_file(drawn, folder / "model.safetensors")
    numbers = {character: k for k, character in enumerate(["<s>", *CHARACTERS], start=1)}
    (folder / "vocab.json").write_text(json.dumps(numbers))
    (folder / "a.txt").write_text("abc def gh\nbad cafe\nhead big cab\nface abid\n")
    return folder
