"""Prefect flows: which stage follows which. Nothing is computed here; no record, exception or task is defined here."""
