//! A server: the PostgreSQL protocol over sessions, users, TLS, metrics.
