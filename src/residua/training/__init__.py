"""Training: one loop, the streams and losses that methods share, and recipes."""
