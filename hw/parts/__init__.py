"""Parts that cores of every kind share: registers, queues, counters, rounding.

Cores: skid_buffer.
"""
