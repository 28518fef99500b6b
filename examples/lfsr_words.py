"""Writes the expected words of lfsr_tb.v: those of the golden model after the seed 5a."""

from itertools import islice
from pathlib import Path

from seedbed.golden.lfsr import Lfsr
from seedbed.spec import LfsrConfig

model = Lfsr(LfsrConfig())  # the same parameters as for the Verilog
model.load(0x5A)
text = "".join(f"{word:02x}\n" for word in islice(model.words(), 1000))
Path("lfsr_words.hex").write_text(text)
