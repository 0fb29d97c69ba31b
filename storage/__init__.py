"""Every byte in or out: the artefact store, the catalogue (all SQL), raster, vector and OpenStreetMap readers, digests.

Not here: decisions about the domain (`trigpoint`), retries and stage keys (`tasks`), order of stages (`flows`).
"""
