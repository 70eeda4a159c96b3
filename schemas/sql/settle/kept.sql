-- Answers to questions for the routes of topics that were left out, and whether the broker still stands in them.
SELECT left_out.*, answers.seq, event_id,
    coalesce(contains(body, '"brokerName":"' || broker_name || '"'), FALSE) AS stands
FROM left_out JOIN answers ON subject = topic AND request_seq > since_seq AND coalesce(answers.seq < until_seq, TRUE)
WHERE code = 105 AND response_code IN (0, 17)
