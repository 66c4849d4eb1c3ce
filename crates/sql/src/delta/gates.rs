//! Who may change a table: transactions together, or one statement alone.
//!
//! A transaction passes a table's gate when it first writes there, and keeps it open until it ends. A statement that changes the
//! layout of a table, or its base directly, closes the gate first. Gates belong to tables, not to their deltas: those come and go.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use saki_base::TableId;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

/// Held shared by transactions that have written, and alone by whoever changes the base without them.
pub type Gate = RwLock<()>;

/// How long a gate is waited for that transactions keep open.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The gates of all tables.
#[derive(Default)]
pub struct Gates(Mutex<HashMap<TableId, Weak<Gate>>>);

impl Gates {
    /// The gate of a table.
    pub fn of(&self, table: TableId) -> Arc<Gate> {
        let mut gates = self.0.lock();
        if let Some(gate) = gates.get(&table).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::default();
        gates.insert(table, Arc::downgrade(&gate));
        gate
    }
}

/// Closes a gate; `None` if transactions keep it open for too long. Waits, so it belongs on a thread that may.
pub fn close(gate: Arc<Gate>) -> Option<OwnedRwLockWriteGuard<()>> {
    let began = Instant::now();
    loop {
        match Arc::clone(&gate).try_write_owned() {
            Ok(guard) => return Some(guard),
            Err(_) if began.elapsed() > PATIENCE => return None,
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
