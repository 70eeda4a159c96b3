"""What the wire does not show: races, settings, a past that was not recorded."""
