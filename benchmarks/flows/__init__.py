"""Chaotic flows of the `dysts` collection: what is recovered of each, and forecast."""
