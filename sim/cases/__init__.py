"""One case a core: stimulus and the golden model's answer, module by module."""
