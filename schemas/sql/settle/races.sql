-- Registrations without response (`unanswered`) whose connection ended at once, each with the end, and with the next answered
-- registration of its address that had arrived before it; and from when until when answers tell whether its broker stood.
WITH closes AS (
    SELECT channel_id, max(seq) AS close_seq, max_by(event_id, seq) AS close_id FROM ends GROUP BY channel_id
), raced AS (
    SELECT * FROM unanswered JOIN closes USING (channel_id) WHERE close_seq > seq AND close_seq <= seq + $lag_ns
), met AS (
    SELECT raced.*, min(later.seq) AS later_seq, min_by(later.event_id, later.seq) AS later_id,
        min_by(later.channel_id, later.seq) AS later_channel
    FROM raced LEFT JOIN registrations AS later
        ON later.broker_addr = raced.broker_addr AND later.channel_id <> raced.channel_id AND later.response_code = 0
        AND later.seq > close_seq AND epoch_us(later.event_time) * 1000 <= raced.seq
    GROUP BY ALL
), following AS (
    SELECT broker_addr, seq FROM registrations
    UNION ALL SELECT broker_addr, seq FROM unregistrations
    UNION ALL SELECT broker_addr, ends.seq FROM ends JOIN met ON ends.channel_id = later_channel
    UNION ALL SELECT NULL, seq FROM life WHERE kind IN ('started', 'stopped', 'recording_gap')
), spans AS (
    SELECT *, coalesce(later_seq, close_seq) AS from_seq FROM met
)
SELECT event_id, seq, epoch_us(effect_time) AS effect_us, channel_id, broker_addr, close_id, close_seq, later_id, later_channel,
    from_seq, seq - $looked_back_ns AS beat_seq, least(from_seq + $longest_ns, $until_seq, (
        SELECT min(following.seq) FROM following
        WHERE following.seq > from_seq AND coalesce(following.broker_addr = spans.broker_addr, TRUE)
    )) AS until_seq
FROM spans ORDER BY seq, event_id
