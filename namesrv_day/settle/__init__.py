"""Settling a day before its replay: settings, the schedule of scans, whether events may have raced."""
