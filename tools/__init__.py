"""Tools for developers, which users do not install: simulator, oracle, traces, benchmarks, checks."""
