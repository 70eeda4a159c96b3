CREATE OR REPLACE TEMPORARY VIEW orphaned_intervals (
    namesrv_id COMMENT 'Name server',
    topic COMMENT 'Topic',
    broker_name COMMENT 'residual: broker name; else NULL',
    reason COMMENT 'As in orphaned_topics',
    from_time COMMENT 'Start, inclusive',
    to_time COMMENT 'End, exclusive; NULL = not over when the last recorded day ended',
    opened_by COMMENT 'event_id that began it',
    closed_by COMMENT 'event_id that ended it'
)
COMMENT 'Whole intervals in which a topic was routed but could not be served as it looks; orphaned_topics cuts them by day'
AS
SELECT
    namesrv_id, topic, broker_name, reason, valid_from, max_by(valid_to, day), opened_by, max_by(closed_by, day)
FROM orphaned_topics
GROUP BY namesrv_id, topic, broker_name, reason, valid_from, opened_by
