"""What name servers say or do, written down as event logs while it happens."""
