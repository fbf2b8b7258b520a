"""The open benchmark: which sigma, which recalibration, on sets that anybody has. `docs/benchmark.md` has its rules."""
