CREATE OR REPLACE TEMPORARY VIEW finding_codes AS
SELECT * FROM (
SELECT
  c.code,
  c.meaning,
  c.remedy
FROM (VALUES
  (
    'ADDR_MULTI_IDENTITY',
    'one address in two groups, or under two ids, at the same time',
    'Look which configuration has the wrong brokerName or brokerId; stop that broker, let its old entry be removed'
  ),
  (
    'BROKER_FLAPPING',
    'a live entry that went three times and more within an hour',
    'Look at departures: lost connections point to the network or to restarts, scans to pauses of the broker'
  ),
  (
    'BROKER_NAME_CONFLICT',
    'one broker name in the sets of two clusters at the same time',
    'Give one of the two brokers another brokerName'
  ),
  (
    'EXPIRED_BROKER',
    'a broker fell silent and was removed',
    'Look whether the broker or its host stood still; detection_lag_ms says how long clients sent to it all the same'
  ),
  (
    'GHOST_BROKER',
    'an address in a group without a live entry',
    'Restart the broker under that address, or unregister it: the name server will not remove it'
  ),
  (
    'MASS_TOPIC_LOSS',
    'an event with which many topics lost their route',
    'Look at who sent the event; if topics were deleted, bring them back from the brokers'' configuration'
  ),
  (
    'NO_MASTER',
    'a group with members, none with id 0',
    'Start the master, or let a slave take its place: nothing can be written to the group'
  ),
  (
    'NO_WRITABLE_QUEUE',
    'a topic that nobody could send to',
    'Look at the event: bring the broker back, or give the write permission back with addWritePerm'
  ),
  (
    'ORPHAN_TOPIC',
    'a topic routed to nobody',
    'Bring the broker back, or delete the topic if it is gone for good'
  ),
  (
    'ADDRESS_IN_DOUBT',
    'two name servers that may be one with two addresses',
    'Say in conf/ (addresses) that they are one, or that each has no other address'
  ),
  (
    'ADDRESS_SHARED',
    'an address at which several name servers seem to answer',
    'Record behind the balancer, where each name server has its own address'
  ),
  (
    'CLOCK_JUMP',
    'a recording whose clock went back',
    'Let NTP slew the recorder''s clock instead of stepping it'
  ),
  (
    'CLOCK_SKEW',
    'a data version from the future, or two name servers recorded by clocks that disagree',
    'Compare the clocks of the hosts'
  ),
  (
    'EXPIRED_WHILE_ALIVE',
    'a broker that was removed although it spoke, and was back within a minute',
    'Look for pauses of the name server, and for what of the broker was refused; or raise its lease'
  ),
  (
    'LOG_GAP',
    'nothing was recorded',
    'Look at the recorder; what happened meanwhile is only believed'
  ),
  (
    'NS_COLD_START',
    'a start: no route is known until brokers register again',
    'Restart name servers one by one, and wait until brokers are back'
  ),
  (
    'READ_LT_WRITE',
    'queues that are written to and that nobody reads',
    'Raise readQueueNums to writeQueueNums, or finish the scaling that was begun'
  ),
  (
    'RESIDUAL_TOPIC',
    'a topic that a broker no longer reports and that is still routed to it',
    'Delete the topic on the name servers, or restart them one by one'
  ),
  (
    'STALE_ORDER_CONF',
    'order configuration that names more than the route has',
    'Put an order configuration that names the brokers there are'
  ),
  (
    'VERSION_REGRESSION',
    'a broker reported an older data version than before',
    'Look whether the broker was restored from an older copy; topics may be older too'
  ),
  (
    'WRITE_PERM_LEFT_WIPED',
    'write permission that was wiped and not given back',
    'addWritePerm, or restart the broker, if the maintenance is over'
  ),
  (
    'PRIVATE_ADDR',
    'registered addresses that other machines can hardly reach',
    'Set brokerIP1 to an address that clients reach'
  ),
  (
    'SINGLE_BROKER_TOPIC',
    'topics on one broker name though their cluster has more',
    'Create the topic on the other brokers; automatic creation makes it on one only'
  )) AS c(code, meaning, remedy)
) AS made(code, meaning, remedy)
