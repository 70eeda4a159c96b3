"""Verification of recorded answers by the replayed tables."""
