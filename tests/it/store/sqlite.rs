//! What only the embedded store has: a file.
