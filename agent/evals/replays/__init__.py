"""Others' benchmarks, their right answers replayed through the whole harness."""
