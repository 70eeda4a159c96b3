-- Brokers whose registrations were refused, until one was accepted (`taken`). Refusals less than two minutes apart have one cause,
-- even if one was accepted in between. PARTIAL_FIRST_REGISTRATION reports single topics that 5.x refuses.
-- meaning: a broker's registrations were refused
-- severity: critical
-- remedy: Look at the reason: a 4.x name server cannot read a compressed registration of a 5.x broker (compressedRegister)
WITH named AS (
    SELECT *, concat_ws(' ', broker_name, broker_addr) AS subject FROM refused
),

until AS (
    SELECT r.*, {'until': t.seen_time, 'by': t.event_id} AS taken
    FROM named AS r
    ASOF LEFT JOIN (SELECT *, concat_ws(' ', broker_name, broker_addr) AS subject FROM taken) AS t
        ON t.subject = r.subject AND t.seen_time > r.seen_time
),

stood AS (
    SELECT
        s.*, (
            SELECT {'until': min(seen_time), 'by': arg_min(event_id, seen_time)}
            FROM taken AS t
            WHERE concat_ws(' ', t.broker_name, t.broker_addr) = s.subject
        ) AS taken
    FROM open_findings AS s
),

spaced AS (
    SELECT
        until.*, coalesce(
            lag(until.taken.until) OVER of_broker < seen_time
            AND epoch_us(seen_time) - lag(epoch_us(seen_time)) OVER of_broker > 120000000, FALSE
        ) AS begins
    FROM until
    ANTI JOIN stood AS s ON s.subject = until.subject AND coalesce(until.seen_time < s.taken.until, TRUE)
    WINDOW of_broker AS (PARTITION BY until.subject ORDER BY seen_time)
),

waves AS (
    SELECT *, count_if(begins) OVER (PARTITION BY subject ORDER BY seen_time) AS wave FROM spaced
)

SELECT
    'critical' AS severity, subject, min(seen_time) AS from_time, if(count(taken.until) = count(*), max(taken.until), NULL) AS to_time,
    count(*) || if(count(*) = 1, ' registration was', ' registrations were') || ' refused: ' || string_agg(DISTINCT reason, '; ' ORDER BY reason)
        || coalesce('; the broker is ' || string_agg(DISTINCT broker_version, ', ' ORDER BY broker_version), '')
        || '; the name server ' || (SELECT namesrv_id FROM about)
        || coalesce(' is ' || string_agg(DISTINCT namesrv_version, ', ' ORDER BY namesrv_version), '') AS detail,
    list(event_id ORDER BY seen_time, event_id)[1:19]
        || if(count(taken.until) = count(*), [arg_max(taken.by, seen_time)], []) AS evidence,
    [any_value(broker_name)] AS broker_names
FROM waves
GROUP BY subject, wave
UNION ALL
SELECT severity, subject, from_time, taken.until, detail, evidence || if(taken.by IS NULL, [], [taken.by]), broker_names
FROM stood
