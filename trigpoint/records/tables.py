"""Arrow schemas of the tables that cross stages; columns as in docs/release-format.md."""

import pyarrow as pa

STRINGS = pa.list_(pa.string())
DOUBLES = pa.list_(pa.float64())

MAPPED_SCHEMA = pa.schema([("geometry", pa.binary()), ("tags", pa.string())])
"""Everything that is mapped near the scenes of a source, whatever its category: WKB in OGC:CRS84, and tags as JSON."""

MASK_SCHEMA = pa.schema(
    [
        ("instance_id", pa.string()),
        ("scene_id", pa.string()),
        ("label", pa.int32()),
        ("plane", pa.int32()),
        ("category", STRINGS),
        ("countable", pa.bool_()),
        ("boxable", pa.bool_()),
        ("area_px", pa.int64()),
        ("moved_px", pa.int64()),
        ("source_ids", STRINGS),
        ("proposal", pa.string()),
        ("review_state", pa.string()),
    ]
)
"""What `annotate` says of an instance; its pixels are in the index map or the bit planes."""

INSTANCE_SCHEMA = pa.schema(
    [
        ("instance_id", pa.string()),
        ("scene_id", pa.string()),
        ("label", pa.int32()),
        ("plane", pa.int32()),
        ("category", STRINGS),
        ("countable", pa.bool_()),
        ("boxable", pa.bool_()),
        ("cut", pa.bool_()),
        ("area_px", pa.int64()),
        ("area_m2", pa.float64()),
        ("perimeter_m", pa.float64()),
        ("length_m", pa.float64()),
        ("width_m", pa.float64()),
        ("orientation_deg", pa.float64()),
        ("elongation", pa.float64()),
        ("compactness", pa.float64()),
        ("centroid_x_m", pa.float64()),
        ("centroid_y_m", pa.float64()),
        ("point_x_px", pa.float64()),
        ("point_y_px", pa.float64()),
        ("hbb_px", DOUBLES),
        ("obb_px", DOUBLES),
        ("rle", pa.string()),
        ("moved_px", pa.int64()),
        ("source_ids", STRINGS),
        ("proposal", pa.string()),
        ("review_state", pa.string()),
        ("geometry", pa.binary()),
    ]
)
"""instances.parquet; `geometry` is WKB in OGC:CRS84."""

OUTLINE_SCHEMA = pa.schema([("instance_id", pa.string()), ("outline", pa.binary())])
"""Measuring outlines as WKB in image coordinates."""

SCENE_SCHEMA = pa.schema(
    [
        ("scene_id", pa.string()),
        ("path", pa.string()),
        ("mask_path", pa.string()),
        ("region_path", pa.string()),
        ("crs", pa.string()),
        ("transform", DOUBLES),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("gsd_m", pa.float64()),
        ("pixel_area_m2", pa.float64()),
        ("metric_crs", pa.string()),
        ("scale_k", pa.float64()),
        ("convergence_deg", pa.float64()),
        ("image_up_deg", pa.float64()),
        ("north_up", pa.bool_()),
        ("valid_share", pa.float64()),
        ("shorter_side_m", pa.float64()),
        ("source", pa.string()),
        ("source_sha256", pa.string()),
        ("window", pa.list_(pa.int64())),
        ("licence", pa.string()),
        ("attribution", pa.string()),
        ("acquired", pa.string()),
        ("how", pa.string()),
        ("poi_id", pa.string()),
        ("series_id", pa.string()),
        ("blank_share", pa.float64()),
        ("bright_share", pa.float64()),
        ("cloud_share", pa.float64()),
        ("phash", STRINGS),
        ("grey_sd", pa.float64()),
        ("outside", STRINGS),
        ("geometry", pa.binary()),
    ]
)
"""scenes.parquet; `geometry` is the footprint as WKB in OGC:CRS84."""

SOURCE_FILE_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("kind", pa.string()),
        ("origin", pa.string()),
        ("date", pa.string()),
        ("sha256", pa.string()),
    ]
)
"""The files that a source was read from; rows of `sources` in manifest.json."""

GRID_SCHEMA = pa.schema([("scene_id", pa.string()), ("grid", pa.list_(pa.float32()))])
"""Grey grids of scenes, 32 × 32 values row by row; see `trigpoint.imagery.phash`."""

POI_SCHEMA = pa.schema(
    [
        ("poi_id", pa.string()),
        ("source", pa.string()),
        ("osm_type", pa.string()),
        ("osm_id", pa.int64()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("geometry", pa.binary()),
        ("name", pa.string()),
        ("tags", pa.string()),
        ("categories", STRINGS),
    ]
)
"""Points of interest; `tags` is JSON; `geometry` is WKB in OGC:CRS84, null of a point."""

CANDIDATE_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("scene_id", pa.string()),
        ("level", pa.int32()),
        ("canonical", pa.string()),
        ("kind", pa.string()),
        ("answer_ids", STRINGS),
        ("category", STRINGS),
        ("relations", STRINGS),
        ("anchor_ids", STRINGS),
        ("n_category", pa.int32()),
        ("difficulty", pa.string()),
        ("flips", STRINGS),
    ]
)
"""Candidate programs of a scene."""

CERTIFICATE_SCHEMA = pa.schema(
    [
        ("level", pa.int32()),
        ("programs", pa.int64()),
        ("programs_changed", pa.int64()),
        ("answers", pa.int64()),
        ("answers_changed", pa.int64()),
    ]
)
"""How stable the candidates of a scene were under jittered outlines, by level; answers are programs × jitters."""

PROGRAM_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("scene_id", pa.string()),
        ("level", pa.int32()),
        ("program", pa.string()),
        ("canonical", pa.string()),
        ("answer_ids", STRINGS),
        ("answerable", pa.bool_()),
        ("kind", pa.string()),
        ("counterfactual_of", pa.string()),
        ("difficulty", pa.string()),
        ("category", STRINGS),
    ]
)
"""Selected programs; `program` is JSON."""

SENTENCE_SCHEMA = pa.schema([("query_id", pa.string()), ("scene_id", pa.string()), ("position", pa.int32()), ("text", pa.string())])
"""Sentences of selected programs; position 0 is the canonical one."""

DISTANCE_SCHEMA = pa.schema([("scene_id", pa.string()), ("instance_ids", STRINGS), ("upper_m", DOUBLES), ("valid_px", pa.int64())])
"""Outline distances of a scene, upper triangle row by row, for `nearest` and `farthest`."""
