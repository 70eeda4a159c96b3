"""What the replay of a day starts from: settings, the schedule of scans, whether something may have raced."""
