"""The quality gate's rules, counted on recorded rows."""
