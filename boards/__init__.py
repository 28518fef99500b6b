"""Boards: applications on real and virtual boards, and the host's side of the link."""
