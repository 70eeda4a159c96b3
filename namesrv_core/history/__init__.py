"""Histories of rows and routes as intervals, and the comparison of recorded answers with them."""
