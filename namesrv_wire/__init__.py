"""Packet captures and event logs of RocketMQ name servers, decoded into rows of the bronze tables. No Spark."""
