"""Packets out of capture files: containers, damage, link layers, headers as columns."""
