-- An address whose answers alternate between states that no registration explains: several name servers behind one load balancer.
-- meaning: several name servers answer at one address: its traffic belongs to no single one
-- severity: warning
-- remedy: Record behind the balancer, where each name server has its own address
SELECT
    'warning' AS severity, namesrv_id AS subject, make_timestamptz(first_seq // 1000) AS from_time,
    make_timestamptz(last_seq // 1000) AS to_time,
    answers || ' of ' || changes || ' changes of the brokers it answers with only take back the one before, and no registration '
        || 'explains them: several name servers answer at this address; it is joined with none, and its answers are not counted as '
        || 'wrong (other_address); record them behind it' AS detail,
    evidence
FROM suspected WHERE kind = 'shared'
