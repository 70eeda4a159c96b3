"""Requests and answers: reading header fields, and building the answer to a question or an event."""
