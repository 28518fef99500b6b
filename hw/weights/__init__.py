"""Weights that are stored in few bits, and their way back to numbers.

Cores: seedlm_decompress, lut_dequantize, trellis_decompress, nf4.
"""
