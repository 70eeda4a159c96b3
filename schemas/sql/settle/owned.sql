-- Closes by the server of broker connections (`owners`) that were not idle. A process that stops closes all its connections.
WITH closes AS (
    SELECT seq, event_id, effect_time, channel_id FROM ends ASOF LEFT JOIN (
        SELECT seq AS life_seq, kind AS life FROM life WHERE kind IN ('started', 'stopped')
    ) ON seq >= life_seq
    WHERE kind = 'close' AND closed_by = 'namesrv' AND life IS DISTINCT FROM 'stopped'
        AND channel_id NOT IN (SELECT channel_id FROM ends WHERE kind = 'idle' AND channel_id IS NOT NULL)
)
SELECT seq, event_id, epoch_us(effect_time) AS close_us, channel_id, broker_addr FROM closes JOIN owners USING (channel_id)
