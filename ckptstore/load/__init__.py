"""Loading: verified bytes of a shard, rebuilt where needed, and their way into tensors. Changes nothing in a store."""
