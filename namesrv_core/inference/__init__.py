"""What the wire does not show: races, settings, how they are concluded from whole recordings."""
