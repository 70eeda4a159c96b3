CREATE OR REPLACE TEMPORARY VIEW finding_codes AS
SELECT * FROM (
SELECT
  c.code,
  c.meaning,
  c.severity,
  c.threshold,
  c.remedy,
  c.is_static
FROM (VALUES
  (
    'ADDR_MULTI_IDENTITY',
    'one address in two groups, or under two ids, at the same time',
    'critical',
    CAST(NULL AS TEXT),
    'Look which configuration has the wrong brokerName or brokerId; stop that broker, let its old entry be removed',
    FALSE
  ),
  (
    'ADDRESS_IN_DOUBT',
    'two name servers that may be one with two addresses',
    'warning',
    CAST(NULL AS TEXT),
    'Say in conf/ (addresses) that they are one, or that each has no other address',
    FALSE
  ),
  (
    'ADDRESS_SHARED',
    'an address at which several name servers seem to answer',
    'warning',
    CAST(NULL AS TEXT),
    'Record behind the balancer, where each name server has its own address',
    FALSE
  ),
  (
    'BROKER_FLAPPING',
    'a live entry that went three times and more within an hour',
    'critical',
    'flapping_within_s = 3600',
    'Look at departures: lost connections point to the network or to restarts, scans to pauses of the broker',
    FALSE
  ),
  (
    'BROKER_NAME_CONFLICT',
    'one broker name in the sets of two clusters at the same time',
    'critical',
    CAST(NULL AS TEXT),
    'Give one of the two brokers another brokerName',
    FALSE
  ),
  (
    'CLOCK_JUMP',
    'a recording whose clock went back',
    'warning',
    CAST(NULL AS TEXT),
    'Let NTP slew the recorder''s clock instead of stepping it',
    FALSE
  ),
  (
    'CLOCK_SKEW',
    'a data version from the future, or two name servers recorded by clocks that disagree',
    'warning',
    'clock_ahead_ms = 60000',
    'Compare the clocks of the hosts',
    FALSE
  ),
  (
    'DUAL_MASTER_CLAIM',
    'two addresses that claim to be the master of one group',
    'critical',
    CAST(NULL AS TEXT),
    'Stop one of the two; look whether a controller or a script started a second master',
    FALSE
  ),
  (
    'EXPIRED_BROKER',
    'a broker fell silent and was removed',
    'critical if topics lost queues, else warning',
    CAST(NULL AS TEXT),
    'Look whether the broker or its host stood still; detection_lag_ms says how long clients sent to it all the same',
    FALSE
  ),
  (
    'EXPIRED_WHILE_ALIVE',
    'a broker that was removed although it spoke, and was back within a minute',
    'warning',
    'back_within_s = 60',
    'Look for pauses of the name server, and for what of the broker was refused; or raise its lease',
    FALSE
  ),
  (
    'FRAME_TOO_LONG',
    'a broker whose registrations are longer than a frame may be: the name server closes the connection each time',
    'critical',
    CAST(NULL AS TEXT),
    'Set enableSplitRegistration or compressedRegister on the broker, or delete topics that nobody needs',
    FALSE
  ),
  (
    'GHOST_BROKER',
    'an address in a group without a live entry',
    'critical',
    'ghost_after_s = 120',
    'Restart the broker under that address, or unregister it: the name server will not remove it',
    FALSE
  ),
  (
    'GHOST_CLUSTER_MEMBER',
    'a cluster that lists a broker name of which there is no group any more',
    'warning',
    CAST(NULL AS TEXT),
    'Start a broker of that name in that cluster and stop it in order, or restart the name servers one by one',
    FALSE
  ),
  (
    'LOG_GAP',
    'nothing was recorded',
    'warning',
    CAST(NULL AS TEXT),
    'Look at the recorder; what happened meanwhile is only believed',
    FALSE
  ),
  (
    'MASS_TOPIC_LOSS',
    'an event with which many topics lost their route',
    'critical; info if the name server stopped',
    'many_topics = 5',
    'Look at who sent the event; if topics were deleted, bring them back from the brokers'' configuration',
    FALSE
  ),
  (
    'NO_MASTER',
    'a group with members, none with id 0',
    'critical; warning where a slave may act as master',
    CAST(NULL AS TEXT),
    'Start the master, or let a slave take its place: nothing can be written to the group',
    FALSE
  ),
  (
    'NO_WRITABLE_QUEUE',
    'a topic that nobody could send to',
    'critical',
    'unwritable_after_ms = 1000',
    'Look at the event: bring the broker back, or give the write permission back with addWritePerm',
    FALSE
  ),
  (
    'NS_ABANDONED',
    'a name server that no broker registers with any more, and that clients still ask for routes',
    'critical',
    'abandoned_after_s = 600',
    'Take it out of the clients'' namesrvAddr, or put it into that of the brokers',
    FALSE
  ),
  (
    'NS_COLD_START',
    'a start: no route is known until brokers register again, and topics that it had are not back',
    'warning',
    CAST(NULL AS TEXT),
    'Restart name servers one by one, and wait until brokers are back; topics that stay away are to be created or registered again',
    FALSE
  ),
  (
    'NS_DIVERGENCE',
    'a name server that lacked topics of a broker which others routed to it',
    'warning',
    'diverged_after_s = 60',
    'Look whether the broker has all name servers in namesrvAddr and reaches them, and what each was asked to delete',
    FALSE
  ),
  (
    'NS_SPLIT',
    'name servers of one cluster that share no broker: one refuses clients the topics that another routes',
    'critical',
    'diverged_after_s = 60',
    'Put all name servers of the cluster into namesrvAddr of all its brokers, or each fleet''s own into that of its clients',
    FALSE
  ),
  (
    'ORPHAN_TOPIC',
    'a topic routed to nobody',
    'critical',
    CAST(NULL AS TEXT),
    'Bring the broker back, or delete the topic if it is gone for good',
    FALSE
  ),
  (
    'PARTIAL_FIRST_REGISTRATION',
    'a broker that came with a single topic (refused, or routed for that topic only), or came back without topics that it had',
    'warning',
    'back_within_s = 60',
    'Change a topic on the broker, or restart it, so that it registers all of its topics; look for its config/topics.json',
    FALSE
  ),
  (
    'PRIVATE_ADDR',
    'registered addresses that other machines can hardly reach: loopback, unspecified, link-local, a container''s, or without a port',
    'info',
    CAST(NULL AS TEXT),
    'Set brokerIP1 and listenPort to an address that clients reach',
    TRUE
  ),
  (
    'PRIVATE_HA_ADDR',
    'a haServerAddr that slaves can hardly reach: of a kind as in PRIVATE_ADDR, or given by two hosts of one group',
    'warning',
    CAST(NULL AS TEXT),
    'Set brokerIP2 to an address that the group''s slaves reach; until then nothing may be replicated',
    FALSE
  ),
  (
    'READ_LT_WRITE',
    'queues that are written to and that nobody reads',
    'warning',
    CAST(NULL AS TEXT),
    'Raise readQueueNums to writeQueueNums, or finish the scaling that was begun',
    TRUE
  ),
  (
    'RESIDUAL_TOPIC',
    'a topic that a broker no longer reports and that is still routed to it',
    'warning',
    CAST(NULL AS TEXT),
    'Delete the topic on the name servers, or restart them one by one',
    FALSE
  ),
  (
    'SAME_VERSION_NEW_CONTENT',
    'a broker that changed its topics and kept its data version, so that name servers need not take them over',
    'warning',
    CAST(NULL AS TEXT),
    'Let the broker count its version on: change a topic on it, or restart it',
    FALSE
  ),
  (
    'SINGLE_BROKER_TOPIC',
    'topics on one broker name though their cluster has more',
    'info',
    CAST(NULL AS TEXT),
    'Create the topic on the other brokers; automatic creation makes it on one only',
    TRUE
  ),
  (
    'SPLIT_BATCH_SKIPPED',
    'a batch of a split registration that was skipped, because the name server had its data version already',
    'warning',
    CAST(NULL AS TEXT),
    'Let the broker register in one piece, or upgrade it: its topics are not routed',
    FALSE
  ),
  (
    'STALE_ORDER_CONF',
    'order configuration that names more than the route has',
    'warning',
    CAST(NULL AS TEXT),
    'Put an order configuration that names the brokers there are',
    FALSE
  ),
  (
    'STALE_UNREGISTER',
    'a fresh registration wiped by a removal that had arrived before it',
    'critical',
    CAST(NULL AS TEXT),
    'Upgrade the name server, or look why it handles ends of connections late; the broker is back with its next registration',
    FALSE
  ),
  (
    'STATIC_MAPPING_LEFT',
    'a topic that its broker registers as a plain one while the name server still has the mapping of a static one',
    'warning',
    CAST(NULL AS TEXT),
    'Restart the name servers one by one: clients that ask for the route are given the old mapping until then',
    FALSE
  ),
  (
    'VERSION_REGRESSION',
    'a broker reported an older data version than before',
    'warning',
    CAST(NULL AS TEXT),
    'Look whether the broker was restored from an older copy; topics may be older too',
    FALSE
  ),
  (
    'WRITE_PERM_LEFT_WIPED',
    'write permission that was wiped and not given back',
    'warning',
    CAST(NULL AS TEXT),
    'addWritePerm, or restart the broker, if the maintenance is over',
    FALSE
  )) AS c(code, meaning, severity, threshold, remedy, is_static)
) AS made(code, meaning, severity, threshold, remedy, is_static)
