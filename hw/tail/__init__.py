"""Backpropagation of the last layers of a network in int8.

Cores: bp_tail.
"""
