"""Input of a day's replay: events, the state at its beginning, the schedule of scans; and the day's coverage."""
