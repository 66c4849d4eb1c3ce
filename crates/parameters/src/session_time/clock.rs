//! The moments that a session's statements go by: `now()` and its like.

use std::sync::atomic::{AtomicI64, Ordering};

use saki_base::wall_micros;

/// When the session's transaction and its statement began, in microseconds since 1970.
#[derive(Debug, Default)]
pub struct Clock {
    transaction: AtomicI64,
    statement: AtomicI64,
}

impl Clock {
    /// A transaction begins, with the statement that opens it.
    pub fn begin_transaction(&self) {
        self.begin_statement(false);
    }

    /// A statement begins: one of an open transaction (`is_within`), or one that is a transaction by itself.
    pub fn begin_statement(&self, is_within: bool) {
        let now = wall_micros();
        self.statement.store(now, Ordering::Relaxed);
        if !is_within {
            self.transaction.store(now, Ordering::Relaxed);
        }
    }

    /// `now()`: when the transaction began. Before the first one it is now.
    pub fn transaction(&self) -> i64 {
        begun(&self.transaction)
    }

    /// `statement_timestamp()`.
    pub fn statement(&self) -> i64 {
        begun(&self.statement)
    }
}

fn begun(at: &AtomicI64) -> i64 {
    match at.load(Ordering::Relaxed) {
        0 => wall_micros(),
        micros => micros,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_transaction_have_its_beginning() {
        let clock = Clock::default();
        assert!(clock.transaction() > 0);
        clock.begin_transaction();
        let (transaction, statement) = (clock.transaction(), clock.statement());
        assert_eq!(transaction, statement);
        while wall_micros() == statement {}
        clock.begin_statement(true);
        assert_eq!(clock.transaction(), transaction);
        assert!(clock.statement() > statement);
        clock.begin_statement(false);
        assert_eq!(clock.transaction(), clock.statement());
    }
}
