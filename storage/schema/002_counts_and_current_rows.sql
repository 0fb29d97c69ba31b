-- Drops that stand for several things, and views of the rows that the latest finished run of each stage stands on.

ALTER TABLE item_drop ADD COLUMN n BIGINT DEFAULT 1;
COMMENT ON COLUMN item_drop.n IS 'how many things this drop stands for';

CREATE VIEW current_item AS
SELECT u.stage, u.item_key
FROM run_item u
JOIN (
    SELECT stage, arg_max(run_id, started_at) AS run_id
    FROM (SELECT DISTINCT stage, run_id FROM run_item) JOIN run USING (run_id)
    WHERE finished_at IS NOT NULL
    GROUP BY stage
) latest USING (stage, run_id);

CREATE VIEW current_poi AS SELECT * FROM poi WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'collect');
CREATE VIEW current_scene AS SELECT * FROM scene WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'collect');
CREATE VIEW current_instance AS SELECT * FROM instance WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'boxes');
CREATE VIEW current_relation AS SELECT * FROM relation WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'graph');
CREATE VIEW current_program AS SELECT * FROM program WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'query');
CREATE VIEW current_sentence AS SELECT * FROM sentence WHERE item_key IN (SELECT item_key FROM current_item WHERE stage = 'query');
CREATE VIEW current_drop AS SELECT d.* FROM item_drop d JOIN current_item USING (stage, item_key);
