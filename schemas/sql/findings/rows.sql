-- Findings of the day: those that begin on it, and those that were open when it began. `things`: rows of the catalogue's queries;
-- `kinds`: the catalogue; `open_findings`: the findings that were open. A row outlasts its day if it is still true when the day ends, or
-- was when the day began; then its key (`lasts`) gives its cause. Other rows have one cause if they begin soon after each other.
-- What ended between $since_us and $until_us may only have been unknown in that time.
WITH placed AS (
    SELECT
        t.*, k.lasts, k.near_us,
        CASE
            WHEN lasts IS NULL OR lasts <> 'day' AND to_time IS NOT NULL AND from_time > $start THEN NULL
            WHEN lasts = 'event' THEN evidence[1]
            ELSE concat_ws(' ', subject, from_time)
        END AS cause
    FROM (
        SELECT * REPLACE (list_filter(evidence, lambda id, n: id IS NOT NULL AND list_position(evidence, id) = n) AS evidence)
        FROM things
    ) AS t
    JOIN kinds AS k ON k.code = t.code
    WHERE coalesce(epoch_us(to_time) NOT BETWEEN $since_us + 1 AND $until_us, TRUE)
),

spaced AS (
    SELECT *, coalesce(epoch_us(from_time) - lag(epoch_us(from_time)) OVER earlier > near_us, FALSE) AS begins
    FROM placed
    WINDOW earlier AS (PARTITION BY code, severity, cause ORDER BY from_time, subject)
),

waves AS (
    SELECT
        *, count_if(begins AND cause IS NULL) OVER (PARTITION BY code, severity, cause ORDER BY from_time, subject) AS wave
    FROM spaced
),

causes AS (
    SELECT
        code, severity, lasts, cause, count(*) AS things,
        list_sort(list_distinct(flatten(list(broker_names)))) AS broker_names,
        list_sort(list_distinct(flatten(list(topic_names)))) AS topic_names,
        first(subject ORDER BY from_time, subject) AS first_subject,
        first(detail ORDER BY from_time, subject) AS first_detail,
        first(evidence ORDER BY from_time, subject) AS first_evidence,
        list_sort(list(DISTINCT subject)) AS subjects, list_sort(list_distinct(flatten(list(evidence)))) AS ids,
        min(from_time) AS from_time, if(count(to_time) = count(*), max(to_time), NULL) AS to_time
    FROM waves
    GROUP BY code, severity, lasts, cause, wave
),

found AS (
    SELECT
        code, severity, from_time, to_time, coalesce(len(broker_names), 0) AS brokers, coalesce(broker_names[1:10], []) AS broker_names,
        coalesce(len(topic_names), 0) AS topics, coalesce(topic_names[1:10], []) AS topic_names,
        list_filter(subjects, lambda other: other <> first_subject) AS others,
        first_subject || if(len(others) > 0, ' and ' || len(others) || ' more', '') AS subject,
        if(things = 1, first_detail, concat(
            first_detail, '; ', things - 1, ' more like it', if(len(others) > 0, ': ', ''),
            array_to_string(others[1:9], ', '), if(len(others) > 9, ' ...', ''), if(brokers > 0 AND topics > 0, ' (' || topics || ' topics in all)', '')
        )) AS detail,
        first_evidence || list_filter(ids, lambda id: NOT list_contains(first_evidence, id)) AS all_ids,
        all_ids[1:greatest(20, len(first_evidence))] AS evidence,
        CASE
            WHEN cause IS NULL OR from_time > $start THEN NULL
            WHEN lasts = 'event' THEN severity || ' ' || cause
            WHEN lasts = 'day' THEN first_subject || ' ' || CAST(from_time AS DATE)
            ELSE first_subject
        END AS known_by
    FROM causes
),

open AS (
    SELECT
        s.*,
        CASE k.lasts
            WHEN 'event' THEN severity || ' ' || evidence[1]
            WHEN 'day' THEN subject || ' ' || CAST(from_time AS DATE)
            ELSE subject
        END AS known_by
    FROM open_findings AS s
    JOIN kinds AS k ON k.code = s.code
),

merged AS (
    SELECT
        coalesce(s.code, f.code) AS code, coalesce(s.severity, f.severity) AS severity,
        coalesce(s.brokers, f.brokers) AS brokers, coalesce(s.broker_names, f.broker_names) AS broker_names,
        coalesce(s.topics, f.topics) AS topics, coalesce(s.topic_names, f.topic_names) AS topic_names,
        coalesce(s.subject, f.subject) AS subject, coalesce(s.from_time, f.from_time) AS from_time,
        -- a finding that the queries no longer return had ended when the day began
        if(f.code IS NULL, $start, f.to_time) AS to_time, coalesce(s.detail, f.detail) AS detail,
        coalesce(s.evidence, f.evidence) AS first_evidence,
        if(s.code IS NULL OR f.to_time IS NULL, [], list_filter(f.evidence, lambda id: NOT list_contains(s.evidence, id))[1:20]) AS later,
        coalesce(s.told_on, CAST($day AS DATE)) AS told_on
    FROM found AS f
    FULL JOIN open AS s ON s.code = f.code AND s.known_by = f.known_by
)

SELECT DISTINCT ON (code, subject, from_time, first_evidence, told_on)
    * EXCLUDE (first_evidence, later), first_evidence || later AS evidence, len(first_evidence) AS begun_with,
    if(to_time IS NULL, NULL, CAST($day AS DATE)) AS ended_on
FROM merged
ORDER BY code, subject, from_time, first_evidence, told_on, severity, to_time NULLS LAST
