"""Answers without a JVM."""
