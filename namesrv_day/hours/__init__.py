"""What is said again and again, condensed: a row for each content and hour of beats, and of answers."""
