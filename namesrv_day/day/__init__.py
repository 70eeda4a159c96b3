"""What a name server's day is given: its events in their order, the state it begins in, its schedule, what is recorded."""
