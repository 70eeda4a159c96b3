"""Benchmarks: a night beside other ways to its answers, and the core beside the real name server."""
