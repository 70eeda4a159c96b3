-- Answers with the routes of topics that a registration left out, and whether they still show the broker.
WITH told AS (
    SELECT left_out.*, answers.seq, event_id, body
    FROM left_out JOIN answers ON subject = topic AND request_seq > since_seq AND coalesce(answers.seq < until_seq, TRUE)
    WHERE code = 105 AND response_code IN (0, 17)
), shown AS (
    SELECT broker_name, number FROM (SELECT DISTINCT broker_name, body FROM told) JOIN bodies ON number = body
    WHERE contains(text, '"brokerName":"' || broker_name || '"')
)
SELECT told.* EXCLUDE (body), number IS NOT NULL AS stands
FROM told LEFT JOIN shown ON shown.broker_name = told.broker_name AND number = body
