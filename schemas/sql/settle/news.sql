-- Broker names of which a registration says anything else than the live entry with which the day begins.
SELECT DISTINCT hours.broker_name FROM hours ANTI JOIN live
    ON hours.broker_addr = live.broker_addr AND hours.broker_name = live.broker_name
    AND hours.channel_id = live.channel_id AND hours.version_counter = live.data_version.counter
    AND hours.version_timestamp = live.data_version.timestamp
    AND hours.version_state IS NOT DISTINCT FROM live.data_version.state_version
WHERE kind = 'registrations'
