-- Name servers whose answers show brokers that send heartbeats only to another one: they may be one process with several addresses.
-- meaning: several name servers seem to be one process with several addresses: not joined unless conf/ or --join-addresses says so
-- severity: warning
-- remedy: Put the lines of the detail into conf/, or list them in apart there if they are different servers; for one run: nightly --join-addresses
SELECT
    'warning' AS severity, array_to_string(list_prepend(namesrv_id, others), ' ') AS subject,
    make_timestamptz(first_seq // 1000) AS from_time, make_timestamptz(last_seq // 1000) AS to_time,
    answers || ' answers at one show brokers that beat at another alone'
        || if(
            kind = 'one',
            ', and no broker beats at two of them; if they are one, say in conf/: [namesrv."' || namesrv_id || '"] addresses = ["'
                || array_to_string(others, '", "') || '"]',
            ', but they cannot all be one' || if(at_both > 0, ' (up to ' || at_both || ' brokers beat at two of them)', '')
                || ': say in conf/ which are, in [namesrv."ip:port"], with addresses = [...]'
        ) || '; if not, apart = [...]. Answers that do not match are not counted as wrong (other_address)' AS detail,
    evidence
FROM suspected WHERE kind IN ('one', 'unsure')
