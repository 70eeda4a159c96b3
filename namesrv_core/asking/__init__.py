"""Requests in, answers out: what the name server says when it is asked."""
