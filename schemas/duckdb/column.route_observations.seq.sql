  EPOCH_US(effect_time) * 1000 + seq_rest
