"""Saving: a rank's tensors become a shard's stripes, fragments and record. Commits nothing: `dcp` and `store` do."""
