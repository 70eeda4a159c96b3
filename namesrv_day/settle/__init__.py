"""What the replay of a day starts from: settings, the schedule of scans, the order of what raced."""
