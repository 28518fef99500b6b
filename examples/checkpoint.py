"""Writes a small checkpoint, checkpoint.safetensors, for the commands in examples/README.md."""

import numpy as np
from safetensors.numpy import save_file

random = np.random.default_rng(1)
weights = {"fc1.weight": (24, 100), "fc2.weight": (10, 24)}
tensors = {name: random.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
save_file(tensors, "checkpoint.safetensors")
