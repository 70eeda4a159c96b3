CREATE OR REPLACE TEMPORARY VIEW findings (
    namesrv_id COMMENT 'Name server',
    code COMMENT 'Code from the catalogue',
    severity COMMENT 'critical, warning or info',
    subject COMMENT 'Broker, topic, cluster or key concerned; of several the first, and how many more',
    from_time COMMENT 'Start',
    to_time COMMENT 'End; NULL = not over when the last recorded day ended',
    detail COMMENT 'In words, with the first few of what it touches',
    evidence COMMENT 'event ids, that which began it first; of many the first few',
    brokers COMMENT 'How many broker names it touches',
    broker_names COMMENT 'The first ten of them, by name',
    topics COMMENT 'How many topics it touches',
    topic_names COMMENT 'The first ten of them, by name',
    day COMMENT 'UTC date on which it was first told'
)
COMMENT 'What an operator should know, one row a finding, however many days it lasts'
AS
SELECT
    namesrv_id, code, max_by(severity, day), subject, from_time, max_by(to_time, day), max_by(detail, day),
    max_by(evidence, day), max_by(brokers, day), max_by(broker_names, day),
    max_by(topics, day), max_by(topic_names, day), min(day)
FROM findings_slices
GROUP BY namesrv_id, code, subject, from_time
