"""The policy in training at work: a server that samples from it, and sessions and single answers that it writes."""
