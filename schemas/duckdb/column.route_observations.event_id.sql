  COALESCE(
    stated_id,
    MD5(
      CONCAT_WS(
        '|',
        namesrv_addr,
        channel_id,
        CAST(code AS TEXT),
        CAST(EPOCH_US(effect_time) AS TEXT),
        CAST(nth AS TEXT)
      )
    )
  )
