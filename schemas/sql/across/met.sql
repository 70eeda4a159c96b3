-- Of answers what each says of two name servers being one, by what registrations took effect before it.
WITH rivals AS (
    -- Two addresses that are one broker by name and id take each other's place.
    SELECT DISTINCT unnest(addrs) AS broker_addr FROM (SELECT list(DISTINCT broker_addr) AS addrs FROM brokers
        GROUP BY broker_name, broker_id HAVING count(DISTINCT broker_addr) > 1)
), since AS (
    -- What it shows of brokers that had registered before the recording began is gone when their leases are over.
    SELECT namesrv_id, min(first_seq) + (
        SELECT max(greatest(greatest(least(coalesce(lease_ms, 0), 1000000000000), 0) * 1000000, $lease_ns)) FROM brokers
    ) AS known_seq
    FROM beats GROUP BY namesrv_id
), closed AS (SELECT * FROM ends WHERE broker_addr IS NULL
), left_by AS (SELECT * FROM ends WHERE broker_addr IS NOT NULL
), fresh AS (
    SELECT r.namesrv_id, r.broker_addr, r.seq + $still AS from_seq, if(broker_id = 0, topic_config_digest, NULL) AS digest,
        least(r.seq + least(greatest(least(r.lease_ms, 1000000000000), 0) * 500000, $fresh_ns), c.seq, u.seq, n.from_seq) AS until_seq
    FROM registered AS r
    ASOF LEFT JOIN waited AS w
        ON w.namesrv_id = r.namesrv_id AND r.received >= w.from_seq
    ASOF LEFT JOIN waited AS n
        ON n.namesrv_id = r.namesrv_id AND r.received < n.from_seq
    ASOF LEFT JOIN closed AS c
        ON c.namesrv_id = r.namesrv_id AND c.channel_id = r.channel_id AND r.seq < c.seq
    ASOF LEFT JOIN left_by AS u
        ON u.namesrv_id = r.namesrv_id AND u.broker_addr = r.broker_addr AND r.seq < u.seq
    WHERE r.broker_addr NOT IN (FROM rivals) AND (w.until_seq IS NULL OR w.until_seq < r.received)
), elsewhere AS (
    -- Before answers are joined: nearly all that is fresh has beaten where they were given.
    SELECT s.namesrv_id, s.known_seq, f.namesrv_id AS heard_at, f.broker_addr, f.from_seq, f.until_seq, f.digest
    FROM since AS s CROSS JOIN fresh AS f
    WHERE (s.namesrv_id, f.broker_addr) NOT IN (SELECT (namesrv_id, broker_addr) FROM beats WHERE broker_addr IS NOT NULL)
), met AS (
    SELECT a.namesrv_id, e.heard_at, a.event_id, a.code, a.subject, a.seq, a.seq <= e.known_seq AS is_early, e.digest,
        list_contains(coalesce(shown, []), e.broker_addr) AS is_shown
    FROM answers AS a LEFT JOIN bodies USING (body)
    JOIN elsewhere AS e ON e.namesrv_id = a.namesrv_id AND e.from_seq <= a.request_seq AND a.seq <= e.until_seq
)
-- A route shows who has the topic: a master that has just registered it must be there.
SELECT least(namesrv_id, heard_at) AS one, greatest(namesrv_id, heard_at) AS other, namesrv_id, event_id, seq, is_early,
    bool_or(is_shown) AS is_for, NOT bool_and(is_shown) AS is_against
FROM met
WHERE is_shown OR code = 106 OR (digest, subject) IN (SELECT (topic_config_digest, topic) FROM topics)
GROUP BY ALL
