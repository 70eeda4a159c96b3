-- So many answers of each name server and request code, spread over the time.
FROM answers
WHERE response_code = 0 OR subject IN (SELECT subject FROM answers WHERE response_code = 0)
QUALIFY (row_number() OVER (PARTITION BY namesrv_id, code ORDER BY seq) - 1)
    % ceil(count(*) OVER (PARTITION BY namesrv_id, code) / $kept)::BIGINT = 0
