"""Exact geometry: metric frames, outlines, topology with a tolerance, repair.

Not here: boxes (`trigpoint.boxes`), masks (`trigpoint.masks`), relations between instances (`trigpoint.scene_graph`).
"""
