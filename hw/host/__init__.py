"""The link to a host: bytes, frames and words.

Cores: host_link.
"""
