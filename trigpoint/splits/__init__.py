"""Splits without leakage: groups, assignment, proof."""
