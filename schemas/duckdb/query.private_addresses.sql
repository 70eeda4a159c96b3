SELECT
  namesrv_id,
  cluster_name,
  broker_name,
  broker_id,
  broker_addr,
  what,
  ha_server_addr,
  kind,
  from_time,
  to_time,
  opened_by
FROM (
  SELECT
    namesrv_id,
    cluster_name,
    broker_name,
    broker_id,
    broker_addr,
    'broker address' AS what,
    CAST(NULL AS TEXT) AS ha_server_addr,
    CASE
      WHEN broker_addr IS NULL
      THEN NULL
      WHEN REGEXP_EXTRACT(LOWER(broker_addr), '^(null)?(:[^:]*)?$') <> ''
      OR broker_addr = ''
      THEN 'no address'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(broker_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?127[.]|[0:]+:ffff:(0+:)?7f[0-9a-f][0-9a-f]:|[0:]*:0*1(%[^:]*)?(]|]?:[0-9]*$|$)' || '|(localhost[46]?|ip6-localhost|ip6-loopback)([.][^:]*)?(:|$)|[^:]*[.]localhost(:|$))'
      ) <> ''
      THEN 'loopback'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(broker_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?0+[.]0+[.]0+[.]0+(]|:|$)|0+(:[0-9]+)?$|[0:]*:(ffff:0+:)?[0:]*(%[^:]*)?(]|:[0-9]+$|$))'
      ) <> ''
      THEN 'unspecified'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(broker_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?169[.]254[.]|[0:]+:ffff:(0+:)?a9fe:|fe[89ab][0-9a-f]:)'
      ) <> ''
      THEN 'link-local'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(broker_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?(172[.](1[6-9]|2[0-9]|3[01])|10[.]88|192[.]168[.](65|122))[.]' || '|[0:]+:ffff:(0+:)?(ac1[0-9a-f]:|a58:|c0a8:(41|7a)[0-9a-f][0-9a-f])' || '|([^:]*[.])?(docker|containers)[.]internal(:|$)' || '|[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f](:|$))'
      ) <> ''
      THEN 'container default'
      WHEN REGEXP_EXTRACT(
        broker_addr,
        ':0*([1-9][0-9]?[0-9]?[0-9]?|[1-5][0-9][0-9][0-9][0-9]|6[0-4][0-9][0-9][0-9]|65[0-4][0-9][0-9]|655[0-2][0-9]|6553[0-5])$'
      ) = ''
      THEN 'no port'
    END AS kind,
    valid_from AS from_time,
    valid_to AS to_time,
    opened_by
  FROM broker_addr_history
  UNION ALL
  SELECT
    namesrv_id,
    cluster_name,
    broker_name,
    CAST(NULL AS BIGINT),
    broker_addr,
    'haServerAddr',
    ha_server_addr,
    CASE
      WHEN ha_server_addr IS NULL
      THEN NULL
      WHEN REGEXP_EXTRACT(LOWER(ha_server_addr), '^(null)?(:[^:]*)?$') <> ''
      OR ha_server_addr = ''
      THEN 'no address'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(ha_server_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?127[.]|[0:]+:ffff:(0+:)?7f[0-9a-f][0-9a-f]:|[0:]*:0*1(%[^:]*)?(]|]?:[0-9]*$|$)' || '|(localhost[46]?|ip6-localhost|ip6-loopback)([.][^:]*)?(:|$)|[^:]*[.]localhost(:|$))'
      ) <> ''
      THEN 'loopback'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(ha_server_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?0+[.]0+[.]0+[.]0+(]|:|$)|0+(:[0-9]+)?$|[0:]*:(ffff:0+:)?[0:]*(%[^:]*)?(]|:[0-9]+$|$))'
      ) <> ''
      THEN 'unspecified'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(ha_server_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?169[.]254[.]|[0:]+:ffff:(0+:)?a9fe:|fe[89ab][0-9a-f]:)'
      ) <> ''
      THEN 'link-local'
      WHEN REGEXP_EXTRACT(
        REPLACE(LOWER(ha_server_addr), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?(172[.](1[6-9]|2[0-9]|3[01])|10[.]88|192[.]168[.](65|122))[.]' || '|[0:]+:ffff:(0+:)?(ac1[0-9a-f]:|a58:|c0a8:(41|7a)[0-9a-f][0-9a-f])' || '|([^:]*[.])?(docker|containers)[.]internal(:|$)' || '|[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f](:|$))'
      ) <> ''
      THEN 'container default'
      WHEN REGEXP_EXTRACT(
        ha_server_addr,
        ':0*([1-9][0-9]?[0-9]?[0-9]?|[1-5][0-9][0-9][0-9][0-9]|6[0-4][0-9][0-9][0-9]|65[0-4][0-9][0-9]|655[0-2][0-9]|6553[0-5])$'
      ) = ''
      THEN 'no port'
    END,
    valid_from,
    valid_to,
    opened_by
  FROM broker_live_history
  WHERE
    ha_server_addr <> ''
    AND (
      CASE
        WHEN broker_addr IS NULL
        THEN NULL
        WHEN REGEXP_EXTRACT(LOWER(broker_addr), '^(null)?(:[^:]*)?$') <> ''
        OR broker_addr = ''
        THEN 'no address'
        WHEN REGEXP_EXTRACT(
          REPLACE(LOWER(broker_addr), '[', ''),
          '^(([0:]+:(ffff:(0+:)?)?)?127[.]|[0:]+:ffff:(0+:)?7f[0-9a-f][0-9a-f]:|[0:]*:0*1(%[^:]*)?(]|]?:[0-9]*$|$)' || '|(localhost[46]?|ip6-localhost|ip6-loopback)([.][^:]*)?(:|$)|[^:]*[.]localhost(:|$))'
        ) <> ''
        THEN 'loopback'
        WHEN REGEXP_EXTRACT(
          REPLACE(LOWER(broker_addr), '[', ''),
          '^(([0:]+:(ffff:(0+:)?)?)?0+[.]0+[.]0+[.]0+(]|:|$)|0+(:[0-9]+)?$|[0:]*:(ffff:0+:)?[0:]*(%[^:]*)?(]|:[0-9]+$|$))'
        ) <> ''
        THEN 'unspecified'
        WHEN REGEXP_EXTRACT(
          REPLACE(LOWER(broker_addr), '[', ''),
          '^(([0:]+:(ffff:(0+:)?)?)?169[.]254[.]|[0:]+:ffff:(0+:)?a9fe:|fe[89ab][0-9a-f]:)'
        ) <> ''
        THEN 'link-local'
        WHEN REGEXP_EXTRACT(
          REPLACE(LOWER(broker_addr), '[', ''),
          '^(([0:]+:(ffff:(0+:)?)?)?(172[.](1[6-9]|2[0-9]|3[01])|10[.]88|192[.]168[.](65|122))[.]' || '|[0:]+:ffff:(0+:)?(ac1[0-9a-f]:|a58:|c0a8:(41|7a)[0-9a-f][0-9a-f])' || '|([^:]*[.])?(docker|containers)[.]internal(:|$)' || '|[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f](:|$))'
        ) <> ''
        THEN 'container default'
        WHEN REGEXP_EXTRACT(
          broker_addr,
          ':0*([1-9][0-9]?[0-9]?[0-9]?|[1-5][0-9][0-9][0-9][0-9]|6[0-4][0-9][0-9][0-9]|65[0-4][0-9][0-9]|655[0-2][0-9]|6553[0-5])$'
        ) = ''
        THEN 'no port'
      END IS NULL
      OR REGEXP_REPLACE(broker_addr, ':[^:]*$', '', 'g') <> REGEXP_REPLACE(ha_server_addr, ':[^:]*$', '', 'g')
    )
) AS found
WHERE
  NOT kind IS NULL
  AND (
    $until IS NULL OR from_time < $until
  )
  AND (
    $since IS NULL OR to_time IS NULL OR to_time > $since
  )
ORDER BY
  from_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_name NULLS FIRST,
  what NULLS FIRST,
  broker_id NULLS FIRST
