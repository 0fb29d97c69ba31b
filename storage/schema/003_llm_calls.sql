-- Calls of language models: one row per line of the record of calls, with what it cost and whom it was about.

ALTER TABLE llm_call ADD COLUMN ask_id VARCHAR;
ALTER TABLE llm_call ADD COLUMN budget_id VARCHAR;
ALTER TABLE llm_call ADD COLUMN scene_id VARCHAR;
ALTER TABLE llm_call ADD COLUMN target_id VARCHAR;
ALTER TABLE llm_call ADD COLUMN cost DOUBLE;
COMMENT ON TABLE llm_call IS 'calls of language models, copied from the record of calls: a row when a call is asked, another when it is answered';
COMMENT ON COLUMN llm_call.status IS 'asked, answered, or failed';
COMMENT ON COLUMN llm_call.input_tokens IS 'tokens in; null while only asked';
COMMENT ON COLUMN llm_call.output_tokens IS 'tokens out; null while only asked';
COMMENT ON COLUMN llm_call.seconds IS 'from asked to answered, s; of a batch, too';
COMMENT ON COLUMN llm_call.called_at IS 'UTC, when the line was written';
COMMENT ON COLUMN llm_call.ask_id IS 'this sending of the call: one row asked, one answered or failed';
COMMENT ON COLUMN llm_call.budget_id IS 'name and version of the release that pays';
COMMENT ON COLUMN llm_call.scene_id IS 'scene of the target';
COMMENT ON COLUMN llm_call.target_id IS 'annotation that the call is about';
COMMENT ON COLUMN llm_call.cost IS 'in the currency of language.prices; null without a price, and while only asked';
