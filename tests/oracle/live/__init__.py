"""Real name servers under brokers, clients and accidents at random, recorded from the wire, and the night that replays them."""
