-- Whether an instant lies in the time range of a saved query.
(:since IS NULL OR {at} >= :since) AND (:until IS NULL OR {at} < :until)
