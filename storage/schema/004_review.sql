-- Decisions of people: one row per line of the ledger of review.

DROP TABLE review;
CREATE TABLE review (
    record_sha256 VARCHAR PRIMARY KEY,
    decision_id VARCHAR,
    item_id VARCHAR,
    kind VARCHAR,
    scene_id VARCHAR,
    action VARCHAR,
    who VARCHAR,
    role VARCHAR,
    round BIGINT,
    version VARCHAR,
    previous VARCHAR,
    undoes VARCHAR,
    reason VARCHAR,
    decided_at VARCHAR,
    record_json VARCHAR NOT NULL,
    imported_at TIMESTAMP NOT NULL
);
COMMENT ON TABLE review IS 'decisions of people, copied from the ledger of review';
COMMENT ON COLUMN review.record_sha256 IS 'SHA-256 of the canonical JSON of the record, hex';
COMMENT ON COLUMN review.decision_id IS 'd- and 16 hex digits of all that it says';
COMMENT ON COLUMN review.item_id IS 'instance or sentence that it is about';
COMMENT ON COLUMN review.kind IS 'mask, vocabulary, referring, reasoning, negative';
COMMENT ON COLUMN review.scene_id IS 'its scene';
COMMENT ON COLUMN review.action IS 'accept, reject, return, edit, add, split, merge, undo, comment';
COMMENT ON COLUMN review.who IS 'who decided';
COMMENT ON COLUMN review.role IS 'annotator, manager, expert';
COMMENT ON COLUMN review.round IS 'round of the policy unanimous, from 1';
COMMENT ON COLUMN review.version IS 'SHA-256 of the content that was seen, hex';
COMMENT ON COLUMN review.previous IS 'newest decision on the item that its author knew';
COMMENT ON COLUMN review.undoes IS 'decision that no longer counts';
COMMENT ON COLUMN review.reason IS 'for people';
COMMENT ON COLUMN review.decided_at IS 'UTC, when the line was written';
COMMENT ON COLUMN review.record_json IS 'the whole record';
COMMENT ON COLUMN review.imported_at IS 'UTC';
