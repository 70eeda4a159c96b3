-- Whether an instant lies in the time range that a saved query is asked for.
(:since IS NULL OR {at} >= :since) AND (:until IS NULL OR {at} < :until)
