"""Speed and memory of the suite against their limits: ``python -m benchmarks`` from the repository root."""
