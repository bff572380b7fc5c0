"""The training set: what stored sessions say, as token ids that a stage can learn from, and why each may or may not."""
