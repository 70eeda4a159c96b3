-- What brought the queue data that were there at :t ({position}: entered_at), or their topics (outer_entered_at), however they
-- changed since.
(
    SELECT h.namesrv_id, h.topic, h.broker_name, e.valid_from, e.opened_by
    FROM topic_queue_history AS h
    JOIN topic_queue_history AS e ON e.namesrv_id = h.namesrv_id AND e.topic = h.topic AND e.opened_at = h.{position}
    WHERE h.valid_from <= :t AND (h.valid_to IS NULL OR h.valid_to > :t)
)
