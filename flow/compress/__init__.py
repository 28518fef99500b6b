"""Compression of checkpoints: seed search, file format, parallel execution."""
