-- Whether a request stood still, something else took effect while one was under way (topics and KV entries concern
-- whoever has them), or a request without response was followed at once: a registration by the end of its connection.
WITH told AS (
    SELECT *, if(received_seq IS NOT NULL AND arrival_us IS NULL, seq, NULL) AS one_way_seq FROM effects
), followed AS (
    SELECT *, max(seq) OVER of_name AS of_name, max(seq) OVER of_all AS of_all,
        max(seq) FILTER (broker_name IS NULL) OVER of_all AS of_none,
        max(seq) FILTER (kind = 'channel_events') OVER of_name AS of_close,
        max(one_way_seq) OVER of_name AS one_way_of_name, max(one_way_seq) OVER of_all AS one_way_of_all,
        max(one_way_seq) FILTER (broker_name IS NULL) OVER of_all AS one_way_of_none
    FROM told
    WINDOW of_name AS (PARTITION BY broker_name ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        of_all AS (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
    EXISTS (SELECT 1 FROM effects WHERE seq - arrival_us * 1000 >= $stall_ns)
    OR EXISTS (
        SELECT 1 FROM followed
        WHERE received_seq - $lag_ns <= greatest(of_none, if(broker_name IS NULL, of_all, of_name))
            OR received_seq - $removal_lag_ns <= greatest(
                of_close, one_way_of_none, if(broker_name IS NULL, one_way_of_all, one_way_of_name)
            )
    )
    OR EXISTS (
        SELECT 1 FROM effects AS request JOIN effects AS close USING (channel_id)
        WHERE request.kind = 'registrations' AND request.arrival_us IS NULL AND close.kind = 'channel_events'
            AND close.seq > request.seq AND close.seq <= request.seq + $lag_ns
    ) AS races
