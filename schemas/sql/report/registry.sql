-- Rows of all tables of the name servers that existed at some instant of the time.
SELECT namesrv_id, table_name, row_key, value, epoch_us(valid_from) AS begun, epoch_us(valid_to) AS ended, opened_by
FROM registry_rows
WHERE valid_from < $b AND (valid_to IS NULL OR valid_to > $a) AND {of_namesrv}
    AND ($topic IS NULL OR (table_name = 'topicQueueTable' AND starts_with(row_key, $topic || ' ')))
    AND ($brokers IS NULL OR $topic IS NOT NULL OR list_has_any(string_split(row_key, ' '), $brokers))
ORDER BY namesrv_id, table_name, row_key, valid_from
LIMIT {most_states}
