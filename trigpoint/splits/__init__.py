"""Splits without leakage: groups, protocols, screening, proof. The contract is docs/release-format.md, "splits/<protocol>.json"."""
