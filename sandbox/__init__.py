"""The judge: builds, guards, verifies and profiles a candidate in processes the candidate cannot reach."""
