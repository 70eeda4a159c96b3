"""What was so from when to when, and whether answers agree with it."""
