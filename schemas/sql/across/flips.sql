-- Name servers of which what they hold goes back and forth, as each of their answers shows it whole.
WITH told AS (SELECT namesrv_id, seq, event_id, hash(body) AS body FROM answers
), changes AS (
    SELECT *, lag(body) OVER own AS last, lag(body, 2) OVER own AS before_last FROM told
    WINDOW own AS (PARTITION BY namesrv_id ORDER BY seq) QUALIFY body <> last
)
SELECT namesrv_id AS one, namesrv_id AS other, count_if(body <> before_last)::BIGINT AS answers_for,
    count_if(body = before_last)::BIGINT AS answers_against, min(seq) AS first_seq, max(seq) AS last_seq,
    (list(event_id ORDER BY seq) FILTER (body = before_last))[1:$shown] AS evidence
FROM changes GROUP BY namesrv_id HAVING answers_against >= greatest($enough, $share * count(*))
