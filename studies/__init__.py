"""Experiments that reproduce the papers' tables of accuracy."""
