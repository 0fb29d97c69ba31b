"""Pixels without files: patches, windows and pictures of them, in numpy alone.

Not here: opening or writing rasters (`storage.rasters`), masks of instances (`trigpoint.masks`), metric frames
(`trigpoint.geometry`).
"""
