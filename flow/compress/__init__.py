"""Compression of checkpoints: the search, the files, the work split over processes."""
