"""Sentences for programs. Not here: language models (trigpoint.models, a later issue)."""
