-- Whether {topic} is one that users send to, and not one that RocketMQ makes for itself. The SQL is valid in both Spark and DuckDB.
left({topic}, 7) <> '%RETRY%' AND left({topic}, 5) <> '%DLQ%' AND left(lower({topic}), 8) <> 'rmq_sys_'
AND right({topic}, 12) <> '_REPLY_TOPIC'
AND {topic} NOT IN ('TBW102', 'SELF_TEST_TOPIC', 'BenchmarkTest', 'OFFSET_MOVED_EVENT', 'SCHEDULE_TOPIC_XXXX')
