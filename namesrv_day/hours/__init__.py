"""Repeated beats of brokers, condensed to rows per hour, and folded into runs for the replay."""
