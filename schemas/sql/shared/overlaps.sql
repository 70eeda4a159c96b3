-- Whether an interval (NULL: it is not over) has a part in the time range that a saved query is asked for.
(:until IS NULL OR {from_time} < :until) AND (:since IS NULL OR {to_time} IS NULL OR {to_time} > :since)
