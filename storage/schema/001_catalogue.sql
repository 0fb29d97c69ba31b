-- The catalogue, version 1. Times are UTC. Domain rows carry the item_key of the item_result that made them, so that a
-- result and its rows come and go together; there are no foreign keys, because one transaction writes both.

CREATE TABLE run (
    run_id VARCHAR PRIMARY KEY,
    kind VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    config_sha256 VARCHAR NOT NULL,
    config_json VARCHAR NOT NULL,
    versions_json VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    note VARCHAR NOT NULL DEFAULT ''
);
COMMENT ON TABLE run IS 'one call of a flow';
COMMENT ON COLUMN run.run_id IS 'id given by the caller';
COMMENT ON COLUMN run.kind IS 'build, nightly, stage, retry, score, ...';
COMMENT ON COLUMN run.state IS 'running, then what finish_run says: completed, incomplete, failed, cancelled';
COMMENT ON COLUMN run.config_sha256 IS 'SHA-256 of the configuration without its run block, hex';
COMMENT ON COLUMN run.config_json IS 'the configuration as canonical JSON, without secrets';
COMMENT ON COLUMN run.versions_json IS 'JSON object: library name to version';
COMMENT ON COLUMN run.started_at IS 'UTC';
COMMENT ON COLUMN run.finished_at IS 'UTC; null while running, or when the process died';
COMMENT ON COLUMN run.note IS 'for people';

CREATE TABLE stage_run (
    stage_run_id VARCHAR PRIMARY KEY,
    run_id VARCHAR NOT NULL,
    stage VARCHAR NOT NULL,
    attempt INTEGER NOT NULL,
    state VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    n_items BIGINT,
    n_done BIGINT,
    n_reused BIGINT,
    n_quarantined BIGINT,
    n_in BIGINT,
    n_out BIGINT,
    seconds DOUBLE,
    summary_json VARCHAR
);
COMMENT ON TABLE stage_run IS 'one stage of one run';
COMMENT ON COLUMN stage_run.stage_run_id IS 'id derived from run, stage and attempt';
COMMENT ON COLUMN stage_run.run_id IS 'the run it belongs to';
COMMENT ON COLUMN stage_run.stage IS 'name of the stage';
COMMENT ON COLUMN stage_run.attempt IS '1 for the first time the run starts this stage, then 2, ...';
COMMENT ON COLUMN stage_run.state IS 'running, then what finish_stage_run says';
COMMENT ON COLUMN stage_run.started_at IS 'UTC';
COMMENT ON COLUMN stage_run.finished_at IS 'UTC; null while running, or when the process died';
COMMENT ON COLUMN stage_run.n_items IS 'items looked at';
COMMENT ON COLUMN stage_run.n_done IS 'items computed in this stage run';
COMMENT ON COLUMN stage_run.n_reused IS 'items whose earlier result was used again';
COMMENT ON COLUMN stage_run.n_quarantined IS 'items kept out by an error';
COMMENT ON COLUMN stage_run.n_in IS 'things that went in';
COMMENT ON COLUMN stage_run.n_out IS 'things that came out';
COMMENT ON COLUMN stage_run.seconds IS 'wall time of the stage, s';
COMMENT ON COLUMN stage_run.summary_json IS 'the whole StageSummary as JSON';

CREATE TABLE artefact (
    sha256 VARCHAR NOT NULL,
    suffix VARCHAR NOT NULL,
    n_bytes BIGINT NOT NULL,
    first_run_id VARCHAR NOT NULL,
    first_stage VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL,
    PRIMARY KEY (sha256, suffix)
);
COMMENT ON TABLE artefact IS 'every file of the artefact store that a result names';
COMMENT ON COLUMN artefact.sha256 IS 'SHA-256 of the bytes, hex; with the suffix its name in the store';
COMMENT ON COLUMN artefact.suffix IS 'extension with its dot';
COMMENT ON COLUMN artefact.n_bytes IS 'size, bytes';
COMMENT ON COLUMN artefact.first_run_id IS 'the run that recorded it first';
COMMENT ON COLUMN artefact.first_stage IS 'the stage that recorded it first';
COMMENT ON COLUMN artefact.recorded_at IS 'UTC';

CREATE TABLE item_result (
    stage VARCHAR NOT NULL,
    item_key VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    content_sha256 VARCHAR NOT NULL,
    n_in BIGINT NOT NULL,
    n_out BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL,
    result_json VARCHAR NOT NULL,
    PRIMARY KEY (stage, item_key)
);
COMMENT ON TABLE item_result IS 'what a stage made of an item; the same key means the same result';
COMMENT ON COLUMN item_result.stage IS 'name of the stage';
COMMENT ON COLUMN item_result.item_key IS 'SHA-256 over inputs, configuration part and code, hex';
COMMENT ON COLUMN item_result.item_id IS 'scene id, source name, or all';
COMMENT ON COLUMN item_result.status IS 'done or quarantined';
COMMENT ON COLUMN item_result.content_sha256 IS 'SHA-256 of what was made, hex; the keys of the next stage are made of it';
COMMENT ON COLUMN item_result.n_in IS 'things that went in';
COMMENT ON COLUMN item_result.n_out IS 'things that came out';
COMMENT ON COLUMN item_result.run_id IS 'the run that made it';
COMMENT ON COLUMN item_result.recorded_at IS 'UTC';
COMMENT ON COLUMN item_result.result_json IS 'the whole ItemResult as JSON';

CREATE TABLE item_artefact (
    stage VARCHAR NOT NULL,
    item_key VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    suffix VARCHAR NOT NULL
);
COMMENT ON TABLE item_artefact IS 'which artefacts a result names';
COMMENT ON COLUMN item_artefact.stage IS 'stage of the result';
COMMENT ON COLUMN item_artefact.item_key IS 'key of the result';
COMMENT ON COLUMN item_artefact.role IS 'table (a Parquet shard shared by items) or file';
COMMENT ON COLUMN item_artefact.name IS 'table name or file name within the result';
COMMENT ON COLUMN item_artefact.sha256 IS 'of the artefact, hex';
COMMENT ON COLUMN item_artefact.suffix IS 'of the artefact';

CREATE TABLE run_item (
    run_id VARCHAR NOT NULL,
    stage VARCHAR NOT NULL,
    item_key VARCHAR NOT NULL,
    is_reused BOOLEAN NOT NULL,
    PRIMARY KEY (run_id, stage, item_key)
);
COMMENT ON TABLE run_item IS 'which results a run stands on, made or reused';
COMMENT ON COLUMN run_item.run_id IS 'the run';
COMMENT ON COLUMN run_item.stage IS 'stage of the result';
COMMENT ON COLUMN run_item.item_key IS 'key of the result';
COMMENT ON COLUMN run_item.is_reused IS 'true when an earlier run had made it';

CREATE TABLE lineage (
    stage VARCHAR NOT NULL,
    item_key VARCHAR NOT NULL,
    parent_content_sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE lineage IS 'what a result was made from';
COMMENT ON COLUMN lineage.stage IS 'stage of the child';
COMMENT ON COLUMN lineage.item_key IS 'key of the child';
COMMENT ON COLUMN lineage.parent_content_sha256 IS 'content_sha256 of a parent result, or SHA-256 of a source file, hex';

CREATE TABLE item_drop (
    stage VARCHAR NOT NULL,
    item_key VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    scope_id VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    reason_code VARCHAR NOT NULL,
    detail VARCHAR NOT NULL,
    remedy VARCHAR NOT NULL,
    is_quarantined BOOLEAN NOT NULL
);
COMMENT ON TABLE item_drop IS 'what did not go on, and why';
COMMENT ON COLUMN item_drop.stage IS 'where it was dropped';
COMMENT ON COLUMN item_drop.item_key IS 'key of the result that says so';
COMMENT ON COLUMN item_drop.position IS 'place in the result, from 0';
COMMENT ON COLUMN item_drop.scope_id IS 'the item being worked on (scene, source)';
COMMENT ON COLUMN item_drop.item_id IS 'what was dropped';
COMMENT ON COLUMN item_drop.reason_code IS 'short stable code';
COMMENT ON COLUMN item_drop.detail IS 'what was found';
COMMENT ON COLUMN item_drop.remedy IS 'what to do';
COMMENT ON COLUMN item_drop.is_quarantined IS 'true when an error kept the whole item out';

CREATE TABLE poi (
    item_key VARCHAR NOT NULL,
    poi_id VARCHAR NOT NULL,
    source VARCHAR,
    osm_type VARCHAR,
    osm_id BIGINT,
    lon DOUBLE,
    lat DOUBLE,
    name VARCHAR,
    tags VARCHAR,
    categories VARCHAR[]
);
COMMENT ON TABLE poi IS 'points of interest';
COMMENT ON COLUMN poi.item_key IS 'key of the collect result';
COMMENT ON COLUMN poi.poi_id IS 'osm/way/123, or source/id';
COMMENT ON COLUMN poi.source IS 'name of the source in the configuration';
COMMENT ON COLUMN poi.osm_type IS 'node, way or relation; null when not from OpenStreetMap';
COMMENT ON COLUMN poi.osm_id IS '64-bit id of OpenStreetMap';
COMMENT ON COLUMN poi.lon IS 'WGS 84 longitude, degrees';
COMMENT ON COLUMN poi.lat IS 'WGS 84 latitude, degrees';
COMMENT ON COLUMN poi.name IS 'byte for byte as found';
COMMENT ON COLUMN poi.tags IS 'JSON object: key to value, as found';
COMMENT ON COLUMN poi.categories IS 'taxonomy categories whose tag expressions match';

CREATE TABLE scene (
    item_key VARCHAR NOT NULL,
    scene_id VARCHAR NOT NULL,
    path VARCHAR,
    mask_path VARCHAR,
    region_path VARCHAR,
    crs VARCHAR,
    transform DOUBLE[],
    width INTEGER,
    height INTEGER,
    gsd_m DOUBLE,
    pixel_area_m2 DOUBLE,
    metric_crs VARCHAR,
    origin_x_m DOUBLE,
    origin_y_m DOUBLE,
    scale_k DOUBLE,
    scale_spread DOUBLE,
    convergence_deg DOUBLE,
    image_up_deg DOUBLE,
    north_up BOOLEAN,
    valid_share DOUBLE,
    shorter_side_m DOUBLE,
    source VARCHAR,
    source_sha256 VARCHAR,
    "window" BIGINT[],
    licence VARCHAR,
    attribution VARCHAR,
    acquired VARCHAR,
    how VARCHAR,
    poi_id VARCHAR,
    crs_overridden BOOLEAN,
    geometry BLOB
);
COMMENT ON TABLE scene IS 'patches cut from imagery (docs/release-format.md, scenes.parquet)';
COMMENT ON COLUMN scene.item_key IS 'key of the result';
COMMENT ON COLUMN scene.scene_id IS 'from source digest and window';
COMMENT ON COLUMN scene.path IS 'of the GeoTIFF, relative to the release';
COMMENT ON COLUMN scene.mask_path IS 'of the index map, relative to the release';
COMMENT ON COLUMN scene.region_path IS 'of the region planes, relative to the release; null without regions';
COMMENT ON COLUMN scene.crs IS 'authority code, else WKT';
COMMENT ON COLUMN scene.transform IS 'affine a, b, c, d, e, f: x = a col + b row + c, y = d col + e row + f, in crs';
COMMENT ON COLUMN scene.width IS 'pixels';
COMMENT ON COLUMN scene.height IS 'pixels';
COMMENT ON COLUMN scene.gsd_m IS 'true ground metres per pixel: square root of pixel_area_m2';
COMMENT ON COLUMN scene.pixel_area_m2 IS 'true ground area of a pixel at the centre, m2';
COMMENT ON COLUMN scene.metric_crs IS 'projected CRS in metres of the local ground frame';
COMMENT ON COLUMN scene.origin_x_m IS 'x of the scene centre in metric_crs, m';
COMMENT ON COLUMN scene.origin_y_m IS 'y of the scene centre in metric_crs, m';
COMMENT ON COLUMN scene.scale_k IS 'point scale of metric_crs at the centre';
COMMENT ON COLUMN scene.scale_spread IS 'largest relative difference of the point scale over the scene';
COMMENT ON COLUMN scene.convergence_deg IS 'meridian convergence of metric_crs at the centre, degrees';
COMMENT ON COLUMN scene.image_up_deg IS 'true azimuth of image-up at the centre, degrees in [0, 360)';
COMMENT ON COLUMN scene.north_up IS 'image-up within 5 degrees of true north';
COMMENT ON COLUMN scene.valid_share IS 'share of valid pixels in [0, 1]';
COMMENT ON COLUMN scene.shorter_side_m IS 'ground length of the shorter side of the valid pixels'' rectangle, m';
COMMENT ON COLUMN scene.source IS 'name of the source in the configuration';
COMMENT ON COLUMN scene.source_sha256 IS 'of the source file, hex';
COMMENT ON COLUMN scene."window" IS 'col_off, row_off, width, height in native pixels of the source';
COMMENT ON COLUMN scene.licence IS 'of the pixels';
COMMENT ON COLUMN scene.attribution IS 'of the pixels';
COMMENT ON COLUMN scene.acquired IS 'ISO date, or null';
COMMENT ON COLUMN scene.how IS 'grid, window or poi';
COMMENT ON COLUMN scene.poi_id IS 'the POI it was cut around, or null';
COMMENT ON COLUMN scene.crs_overridden IS 'the configuration gave the CRS';
COMMENT ON COLUMN scene.geometry IS 'WKB footprint, WGS 84 longitude latitude';

CREATE TABLE instance (
    item_key VARCHAR NOT NULL,
    instance_id VARCHAR NOT NULL,
    scene_id VARCHAR,
    label INTEGER,
    plane INTEGER,
    category VARCHAR[],
    countable BOOLEAN,
    boxable BOOLEAN,
    cut BOOLEAN,
    area_px BIGINT,
    area_m2 DOUBLE,
    perimeter_m DOUBLE,
    length_m DOUBLE,
    width_m DOUBLE,
    orientation_deg DOUBLE,
    elongation DOUBLE,
    compactness DOUBLE,
    centroid_x_m DOUBLE,
    centroid_y_m DOUBLE,
    point_x_px DOUBLE,
    point_y_px DOUBLE,
    hbb_px DOUBLE[],
    obb_px DOUBLE[],
    rle VARCHAR,
    moved_px BIGINT,
    source_ids VARCHAR[],
    proposal VARCHAR,
    review_state VARCHAR,
    geometry BLOB
);
COMMENT ON TABLE instance IS 'objects and regions of scenes (docs/release-format.md, instances.parquet)';
COMMENT ON COLUMN instance.item_key IS 'key of the result';
COMMENT ON COLUMN instance.instance_id IS 'id of the instance';
COMMENT ON COLUMN instance.scene_id IS 'its scene';
COMMENT ON COLUMN instance.label IS 'value in the index map; null for regions';
COMMENT ON COLUMN instance.plane IS 'bit plane of a region; null for discrete instances';
COMMENT ON COLUMN instance.category IS 'at most one value per axis';
COMMENT ON COLUMN instance.countable IS 'discrete';
COMMENT ON COLUMN instance.boxable IS 'instanceable category and separable';
COMMENT ON COLUMN instance.cut IS 'touches the border of the scene or its invalid area';
COMMENT ON COLUMN instance.area_px IS 'pixels';
COMMENT ON COLUMN instance.area_m2 IS 'true ground area, m2';
COMMENT ON COLUMN instance.perimeter_m IS 'of the measuring outline, true ground m';
COMMENT ON COLUMN instance.length_m IS 'longer side of the metric minimum-area rectangle, true ground m';
COMMENT ON COLUMN instance.width_m IS 'shorter side of the metric minimum-area rectangle, true ground m';
COMMENT ON COLUMN instance.orientation_deg IS 'true azimuth of the long side, degrees in [0, 180)';
COMMENT ON COLUMN instance.elongation IS 'length / width';
COMMENT ON COLUMN instance.compactness IS '4 pi area / perimeter^2';
COMMENT ON COLUMN instance.centroid_x_m IS 'local ground frame, m along grid east';
COMMENT ON COLUMN instance.centroid_y_m IS 'local ground frame, m along grid north';
COMMENT ON COLUMN instance.point_x_px IS 'representative point, image coordinates (x right)';
COMMENT ON COLUMN instance.point_y_px IS 'representative point, image coordinates (y down)';
COMMENT ON COLUMN instance.hbb_px IS 'x_min, y_min, x_max, y_max of the pixel edges, image coordinates';
COMMENT ON COLUMN instance.obb_px IS 'x1, y1, ... x4, y4, image coordinates; null for regions';
COMMENT ON COLUMN instance.rle IS 'COCO compressed counts; size is the scene''s height, width';
COMMENT ON COLUMN instance.moved_px IS 'pixels that went to another owner';
COMMENT ON COLUMN instance.source_ids IS 'for example osm/way/123';
COMMENT ON COLUMN instance.proposal IS 'where the outline came from';
COMMENT ON COLUMN instance.review_state IS 'unreviewed, annotated, ...';
COMMENT ON COLUMN instance.geometry IS 'WKB pixel-edge polygon, WGS 84 longitude latitude';

CREATE TABLE relation (
    item_key VARCHAR NOT NULL,
    scene_id VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    anchor_id VARCHAR NOT NULL,
    relation VARCHAR NOT NULL,
    verdict VARCHAR,
    value DOUBLE,
    unit VARCHAR,
    margin DOUBLE
);
COMMENT ON TABLE relation IS 'TRUE and UNDECIDED edges of the scene graph; what is not stored is FALSE';
COMMENT ON COLUMN relation.item_key IS 'key of the result';
COMMENT ON COLUMN relation.scene_id IS 'the scene';
COMMENT ON COLUMN relation.subject_id IS 'instance that stands in the relation';
COMMENT ON COLUMN relation.anchor_id IS 'instance it stands in relation to';
COMMENT ON COLUMN relation.relation IS 'north_of, near, inside, ...';
COMMENT ON COLUMN relation.verdict IS 'TRUE or UNDECIDED';
COMMENT ON COLUMN relation.value IS 'what was measured, in unit';
COMMENT ON COLUMN relation.unit IS 'deg, m or share';
COMMENT ON COLUMN relation.margin IS 'half-width of the undecided zone, in unit';

CREATE TABLE program (
    item_key VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    scene_id VARCHAR,
    form VARCHAR,
    level INTEGER,
    program VARCHAR,
    canonical VARCHAR,
    answer_ids VARCHAR[],
    answerable BOOLEAN,
    kind VARCHAR,
    polarity VARCHAR,
    counterfactual_of VARCHAR,
    difficulty VARCHAR,
    annotation_id VARCHAR,
    category VARCHAR[]
);
COMMENT ON TABLE program IS 'executable queries (docs/release-format.md, queries.jsonl)';
COMMENT ON COLUMN program.item_key IS 'key of the result';
COMMENT ON COLUMN program.query_id IS 'from scene id and canonical form';
COMMENT ON COLUMN program.scene_id IS 'the scene';
COMMENT ON COLUMN program.form IS 'program';
COMMENT ON COLUMN program.level IS '1 to 5';
COMMENT ON COLUMN program.program IS 'JSON tree';
COMMENT ON COLUMN program.canonical IS 's-expression';
COMMENT ON COLUMN program.answer_ids IS 'sorted instance ids';
COMMENT ON COLUMN program.answerable IS 'whether there is an answer';
COMMENT ON COLUMN program.kind IS 'answerable, category_absent, relation_unsatisfied';
COMMENT ON COLUMN program.polarity IS 'positive or negative';
COMMENT ON COLUMN program.counterfactual_of IS 'query id, or null';
COMMENT ON COLUMN program.difficulty IS 'easy, medium, hard';
COMMENT ON COLUMN program.annotation_id IS 'null for programs';
COMMENT ON COLUMN program.category IS 'of the selected set';

CREATE TABLE sentence (
    item_key VARCHAR NOT NULL,
    query_id VARCHAR NOT NULL,
    scene_id VARCHAR,
    position INTEGER NOT NULL,
    text VARCHAR NOT NULL
);
COMMENT ON TABLE sentence IS 'the words of queries';
COMMENT ON COLUMN sentence.item_key IS 'key of the result';
COMMENT ON COLUMN sentence.query_id IS 'the query';
COMMENT ON COLUMN sentence.scene_id IS 'the scene';
COMMENT ON COLUMN sentence.position IS '0 is the scored one';
COMMENT ON COLUMN sentence.text IS 'English';

CREATE TABLE review (
    record_sha256 VARCHAR PRIMARY KEY,
    subject_kind VARCHAR,
    subject_id VARCHAR,
    scene_id VARCHAR,
    state VARCHAR,
    reviewer VARCHAR,
    note VARCHAR,
    decided_at VARCHAR,
    record_json VARCHAR NOT NULL,
    imported_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE review IS 'decisions of people, copied from the store''s records';
COMMENT ON COLUMN review.record_sha256 IS 'SHA-256 of the canonical JSON of the record, hex';
COMMENT ON COLUMN review.subject_kind IS 'what was judged: instance, sentence, ...';
COMMENT ON COLUMN review.subject_id IS 'its id';
COMMENT ON COLUMN review.scene_id IS 'its scene';
COMMENT ON COLUMN review.state IS 'accepted, edited, returned, ...';
COMMENT ON COLUMN review.reviewer IS 'who decided';
COMMENT ON COLUMN review.note IS 'for people';
COMMENT ON COLUMN review.decided_at IS 'ISO time as the record gives it';
COMMENT ON COLUMN review.record_json IS 'the whole record';
COMMENT ON COLUMN review.imported_at IS 'UTC';

CREATE TABLE llm_call (
    record_sha256 VARCHAR PRIMARY KEY,
    call_key VARCHAR,
    model VARCHAR,
    prompt VARCHAR,
    status VARCHAR,
    input_tokens BIGINT,
    output_tokens BIGINT,
    seconds DOUBLE,
    called_at VARCHAR,
    record_json VARCHAR NOT NULL,
    imported_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE llm_call IS 'calls of language models, copied from the store''s records';
COMMENT ON COLUMN llm_call.record_sha256 IS 'SHA-256 of the canonical JSON of the record, hex';
COMMENT ON COLUMN llm_call.call_key IS 'digest of model, prompt, input and parameters, hex';
COMMENT ON COLUMN llm_call.model IS 'name of the model';
COMMENT ON COLUMN llm_call.prompt IS 'name and version of the prompt file';
COMMENT ON COLUMN llm_call.status IS 'ok, truncated, refused, failed, ...';
COMMENT ON COLUMN llm_call.input_tokens IS 'tokens in';
COMMENT ON COLUMN llm_call.output_tokens IS 'tokens out';
COMMENT ON COLUMN llm_call.seconds IS 'wall time, s';
COMMENT ON COLUMN llm_call.called_at IS 'ISO time as the record gives it';
COMMENT ON COLUMN llm_call.record_json IS 'the whole record';
COMMENT ON COLUMN llm_call.imported_at IS 'UTC';

CREATE TABLE release (
    name VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    manifest_sha256 VARCHAR NOT NULL,
    path VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL,
    PRIMARY KEY (name, version, manifest_sha256)
);
COMMENT ON TABLE release IS 'releases that were published or rejected';
COMMENT ON COLUMN release.name IS 'from the configuration';
COMMENT ON COLUMN release.version IS 'from the configuration';
COMMENT ON COLUMN release.manifest_sha256 IS 'SHA-256 of manifest.json, hex';
COMMENT ON COLUMN release.path IS 'folder of the release';
COMMENT ON COLUMN release.run_id IS 'the run that recorded it last';
COMMENT ON COLUMN release.state IS 'published, rejected, ...';
COMMENT ON COLUMN release.recorded_at IS 'UTC';
