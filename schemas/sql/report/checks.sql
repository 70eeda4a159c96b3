-- How answers compare with the tables, by name server.
SELECT namesrv_id, sum(answers) AS answers, sum(matched) AS matched, sum(explained) AS explained,
    sum(unknown_past) AS unknown_past, sum(mismatched) AS mismatched
FROM answer_checks WHERE {of_namesrv} GROUP BY namesrv_id ORDER BY namesrv_id
