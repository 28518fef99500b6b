"""The engine on the chip: layers of a convolutional network, one after the other.

Cores: requantize, conv_engine.
"""
