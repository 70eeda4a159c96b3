"""What those who work on this software use, and users do not install: simulator, oracle, traces, benchmarks, checks."""
