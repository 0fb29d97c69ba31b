"""The metric scene graph: measured, three-valued relations between the instances of one scene."""
