-- The last value of each setting of a name server, with its source.
SELECT
    namesrv_id, setting,
    arg_max(
        {'value': value, 'source': source, 'answers_for': answers_for, 'answers_against': answers_against},
        {'day': day, 'from_seq': from_seq}
    ) AS last
FROM namesrv_settings GROUP BY namesrv_id, setting ORDER BY namesrv_id, setting
