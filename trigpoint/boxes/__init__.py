"""Boxes: HBB from pixel edges, OBB by rotating calipers, and the conventions that others use."""
