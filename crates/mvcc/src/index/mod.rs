//! Ordered index: byte keys to addresses.
