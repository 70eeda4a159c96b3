-- Whether an interval (end NULL: not over) overlaps the time range of a saved query.
(:until IS NULL OR {from_time} < :until) AND (:since IS NULL OR {to_time} IS NULL OR {to_time} > :since)
