"""Beats, which say the same again and again, condensed to hours, and folded into runs."""
