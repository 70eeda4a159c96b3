-- Name servers, and their versions.
SELECT namesrv_id, string_agg(DISTINCT value, ', ') FILTER (setting = 'version') AS version
FROM namesrv_settings WHERE {of_namesrv} GROUP BY namesrv_id ORDER BY namesrv_id
