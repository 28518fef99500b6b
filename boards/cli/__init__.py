"""The commands of boards."""
