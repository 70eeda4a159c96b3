-- Brokers over whose connection the timer is said to have closed, and a later packet closed (again), they had registered last: from
-- when until when they are gone if the timer did, and nothing that they said since brought them back.
WITH passed AS (
    SELECT channel_id, max(seq) FILTER (closed_by = 'timer') AS from_seq, min(seq) FILTER (kind = 'late_close') AS until_seq
    FROM ends GROUP BY channel_id
), beats AS (
    SELECT broker_addr, channel_id, 0 AS first_seq, 0 AS last_seq, TRUE AS registers FROM live
    UNION ALL SELECT broker_addr, channel_id, first_seq, last_seq, kind = 'registrations' FROM hours WHERE refusal IS NULL
)
SELECT beats.broker_addr, from_seq AS beat_seq, from_seq + $lag_ns AS from_seq,
    least(until_seq, min(first_seq) FILTER (first_seq > passed.from_seq)) AS until_seq
FROM passed JOIN owners USING (channel_id) JOIN beats ON beats.broker_addr = owners.broker_addr
WHERE passed.from_seq < until_seq
GROUP BY beats.broker_addr, passed.channel_id, passed.from_seq, until_seq
HAVING NOT bool_or(first_seq <= passed.from_seq AND last_seq > passed.from_seq)
    AND arg_max(beats.channel_id, last_seq) FILTER (registers AND last_seq <= passed.from_seq) = passed.channel_id
