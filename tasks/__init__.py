"""Stages: read by id, call pure functions, write, return a summary. One module per stage; `engine` runs them.

Nothing here decides anything about geometry or labels, and only `tasks.doors` imports Prefect (docs/design/engine.md).
"""
