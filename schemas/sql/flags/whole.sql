-- The last answers of each name server that show all brokers, with the brokers.
SELECT namesrv_id, answer.seq, answer.event_id, brokers FROM (
    SELECT namesrv_id, unnest(answers) AS answer,
        list_sort(list_distinct(regexp_extract_all(body, '"?-?[0-9]+"?:"([^"]+)"', 1))) AS brokers
    FROM bodies
) QUALIFY row_number() OVER (PARTITION BY namesrv_id ORDER BY answer.seq DESC, answer.event_id) <= $most
