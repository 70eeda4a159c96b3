"""The history of RocketMQ name servers."""
