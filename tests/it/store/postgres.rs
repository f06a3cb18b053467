//! What only the store of several replicas has: replicas, and a network that fails.
