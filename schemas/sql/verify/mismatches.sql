-- Answers that do not match, and what explains them.
WITH explaining AS (
    SELECT unnest(evidence_against) AS event_id, 'order_decision' AS classification, decision_id FROM order_decisions
    UNION ALL
    SELECT regexp_replace(event_id, '-response$', ''), 'unknown_past', NULL FROM event_outcomes
    WHERE operation = 'observed_answer' AND outcome = 'unknown_past'
), explained AS (
    SELECT event_id, min(classification) AS classification, min(decision_id) AS decision_id
    FROM explaining GROUP BY event_id
)
SELECT
    event_id, code, subject, make_timestamp(request_seq // 1000) AS request_time,
    effect_time AS answer_time, decision_id,
    coalesce(
        classification,
        CASE WHEN unseen THEN 'unseen_broker' WHEN late IS NOT NULL THEN late
            WHEN $is_suspected THEN 'other_address'
        ELSE 'mismatched' END
    ) AS classification,
    coalesce(nullif(concat_ws(chr(10), nullif(response_fields, '{}'), body), ''), remark) AS answered, expected
FROM (SELECT unnest(rows) AS row, expected, unseen, late FROM verdicts WHERE NOT matched)
JOIN (SELECT row, event_id, request_seq, effect_time, code, subject, response_fields, body, remark FROM answers) USING (row)
LEFT JOIN explained USING (event_id)
