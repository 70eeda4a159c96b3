-- Why other machines can hardly reach {addr}, HOST:PORT as a broker registers it; NULL: no reason found. The SQL is valid in both
-- Spark and DuckDB. As in RocketMQ, the port follows the last colon, and IPv6 may have brackets. A mapped IPv4 address
-- (::ffff:127.0.0.1, ::ffff:7f00:1) counts as the address that it maps. Container defaults: the bridges of Docker (its pools,
-- 172.17 to 172.31; 172.16 is a cloud's network), Podman (10.88/16), libvirt (192.168.122/24) and Docker Desktop
-- (192.168.65/24), their host names, and a container's id as host name.
CASE
    WHEN {addr} IS NULL THEN NULL
    WHEN regexp_extract(lower({addr}), '^(null)?(:[^:]*)?$', 0) <> '' OR {addr} = '' THEN 'no address'
    WHEN regexp_extract(
        replace(lower({addr}), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?127[.]|[0:]+:ffff:(0+:)?7f[0-9a-f][0-9a-f]:|[0:]*:0*1(%[^:]*)?(]|]?:[0-9]*$|$)'
        || '|(localhost[46]?|ip6-localhost|ip6-loopback)([.][^:]*)?(:|$)|[^:]*[.]localhost(:|$))', 0
    ) <> '' THEN 'loopback'
    WHEN regexp_extract(
        replace(lower({addr}), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?0+[.]0+[.]0+[.]0+(]|:|$)|0+(:[0-9]+)?$|[0:]*:(ffff:0+:)?[0:]*(%[^:]*)?(]|:[0-9]+$|$))', 0
    ) <> '' THEN 'unspecified'
    WHEN regexp_extract(
        replace(lower({addr}), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?169[.]254[.]|[0:]+:ffff:(0+:)?a9fe:|fe[89ab][0-9a-f]:)', 0
    ) <> '' THEN 'link-local'
    WHEN regexp_extract(
        replace(lower({addr}), '[', ''),
        '^(([0:]+:(ffff:(0+:)?)?)?(172[.](1[7-9]|2[0-9]|3[01])|10[.]88|192[.]168[.](65|122))[.]'
        || '|[0:]+:ffff:(0+:)?(ac1[1-9a-f]:|a58:|c0a8:(41|7a)[0-9a-f][0-9a-f])'
        || '|([^:]*[.])?(docker|containers)[.]internal(:|$)'
        || '|[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f](:|$))', 0
    ) <> '' THEN 'container default'
    WHEN regexp_extract(
        {addr},
        ':0*([1-9][0-9]?[0-9]?[0-9]?|[1-5][0-9][0-9][0-9][0-9]|6[0-4][0-9][0-9][0-9]|65[0-4][0-9][0-9]|655[0-2][0-9]|6553[0-5])$', 0
    ) = '' THEN 'no port'
END
