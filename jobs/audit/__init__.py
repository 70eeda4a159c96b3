"""Proof for auditors: an instant rebuilt by another path, and the attestation of the result."""
