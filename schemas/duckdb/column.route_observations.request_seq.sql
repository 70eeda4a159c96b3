  EPOCH_US(event_time) * 1000 + request_rest
