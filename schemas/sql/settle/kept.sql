-- Answers with the routes of topics that a registration left out, and whether they still show the broker.
WITH asked AS (
    SELECT left_out.*, answers.seq, event_id, body
    FROM left_out JOIN answers ON subject = topic AND request_seq > since_seq AND coalesce(answers.seq < until_seq, TRUE)
    WHERE code = 105 AND response_code IN (0, 17)
), shown AS (
    SELECT broker_name, number FROM (SELECT DISTINCT broker_name, body FROM asked) JOIN bodies ON number = body
    WHERE contains(text, '"brokerName":"' || broker_name || '"')
)
SELECT asked.* EXCLUDE (body), number IS NOT NULL AS is_shown
FROM asked LEFT JOIN shown ON shown.broker_name = asked.broker_name AND number = body
