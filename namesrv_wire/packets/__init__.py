"""Packets out of capture files: containers, damage, link layers, TCP segments."""
