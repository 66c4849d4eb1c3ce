//! Checks of DEFERRABLE foreign keys that wait in a transaction: what it has said about when they are made, and those
//! that are left to its end.
//!
//! They are in memory alone, counted against the server's, and go with the transaction, however that ends. Kept is
//! *which* row or key is to be looked at, never what was seen of it: the check reads what there is when it is made.
//!
//! Going back to a savepoint takes back what waits since then and what SET CONSTRAINTS has said since; and a check that
//! was made since waits again, because what it has found may have gone as well.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::memory::{Pool, Reservation};
use saki_base::{TableId, Value};

use saki_catalog::{Deferral, KeyId, Result};

/// A check that waits.
#[derive(Clone, Debug)]
pub struct DeferredCheck {
    /// Of this foreign key, whatever it is called by then.
    pub key: Arc<KeyId>,
    pub checked: Checked,
}

/// What is looked at.
#[derive(Clone, Debug)]
pub enum Checked {
    /// The row with this primary key, encoded, of the table that refers: what it refers to must be there.
    Row(Arc<[u8]>),
    /// Values that were a key of the table referred to: no row refers to them, or they are a key again.
    Gone(Arc<[Value]>),
}

/// What SET CONSTRAINTS has said in a transaction.
#[derive(Clone, Default, Debug)]
struct Said {
    all: Option<bool>,
    /// Since then, of single ones.
    single: HashMap<KeyId, bool>,
}

/// What a statement leaves to the end of its transaction.
pub struct Deferring {
    said: Arc<Said>,
    memory: Arc<Pool>,
    left: Mutex<Left>,
}

#[derive(Default)]
struct Left {
    checks: Vec<DeferredCheck>,
    held: Option<Reservation>,
}

/// What waits in a transaction.
#[derive(Default)]
pub struct Deferred {
    said: Arc<Said>,
    /// In the order in which statements left them.
    checks: Vec<Kept>,
    /// How often checks have been made before the end.
    rounds: u32,
    held: Option<Reservation>,
}

struct Kept {
    check: DeferredCheck,
    /// The round in which it was made. It is kept for savepoints from before that.
    made: Option<u32>,
}

/// What is gone back to.
#[derive(Clone)]
pub struct DeferredMark {
    said: Arc<Said>,
    checks: usize,
    rounds: u32,
}

impl DeferredCheck {
    /// The table whose rows it is about, which nobody may lay out anew while it waits.
    fn table(&self) -> TableId {
        match self.checked {
            Checked::Row(_) => self.key.from,
            Checked::Gone(_) => self.key.to,
        }
    }

    /// Memory that it takes: where it is kept, and once more while it is made.
    fn bytes(&self) -> usize {
        let own = match &self.checked {
            Checked::Row(key) => key.len(),
            Checked::Gone(values) => bytes_of(values),
        };
        own + size_of::<Kept>() + size_of::<Self>()
    }
}

/// Memory that values take.
pub fn bytes_of(values: &[Value]) -> usize {
    let beside = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytea(bytes) => bytes.len(),
        _ => 0,
    };
    values.iter().map(|value| size_of::<Value>() + beside(value)).sum()
}

impl Said {
    fn defers(&self, key: &KeyId, deferral: Deferral) -> bool {
        let said = self.single.get(key).copied().or(self.all);
        deferral.is_deferrable() && said.unwrap_or(deferral.is_initially_deferred())
    }
}

impl Deferring {
    /// Whether the end of the transaction is to check a foreign key.
    pub fn defers(&self, key: &KeyId, deferral: Deferral) -> bool {
        self.said.defers(key, deferral)
    }

    /// Leaves a check to the end of the transaction.
    ///
    /// # Errors
    /// 53200 if there is no memory for it.
    pub fn leave(&self, key: &Arc<KeyId>, checked: Checked) -> Result<()> {
        let mut left = self.left.lock();
        // Most are of the key that the one before is of.
        let key = left.checks.last().map(|last| &last.key).filter(|last| *last == key).unwrap_or(key);
        let check = DeferredCheck { key: Arc::clone(key), checked };
        match &mut left.held {
            Some(held) => held.grow(check.bytes())?,
            none => *none = Some(self.memory.reserve(check.bytes())?),
        }
        left.checks.push(check);
        Ok(())
    }
}

impl Deferred {
    /// What a statement that begins now leaves checks with.
    pub fn deferring(&self, memory: &Arc<Pool>) -> Deferring {
        Deferring { said: Arc::clone(&self.said), memory: Arc::clone(memory), left: Mutex::default() }
    }

    /// Keeps what a statement has left that has come to its end.
    pub fn keep(&mut self, deferring: Deferring) {
        let Left { checks, held } = deferring.left.into_inner();
        self.checks.extend(checks.into_iter().map(|check| Kept { check, made: None }));
        let Some(more) = held else { return };
        match &mut self.held {
            Some(all) => all.join(more),
            none => *none = Some(more),
        }
    }

    /// Says when foreign keys are checked: these, or all.
    pub fn say(&mut self, keys: Option<&[KeyId]>, deferred: bool) {
        let said = Arc::make_mut(&mut self.said);
        match keys {
            None => *said = Said { all: Some(deferred), single: HashMap::new() },
            Some(keys) => said.single.extend(keys.iter().map(|key| (key.clone(), deferred))),
        }
    }

    /// Checks that wait: of these keys, or all.
    pub fn due(&self, keys: Option<&[KeyId]>) -> Vec<DeferredCheck> {
        self.waiting().filter(|check| is_of(check, keys)).cloned().collect()
    }

    /// They have been made. `may_go_back`: there are savepoints.
    pub fn made(&mut self, keys: Option<&[KeyId]>, may_go_back: bool) {
        let round = self.rounds;
        self.rounds += 1;
        for kept in self.checks.iter_mut().filter(|kept| kept.made.is_none() && is_of(&kept.check, keys)) {
            kept.made = Some(round);
        }
        if !may_go_back {
            self.checks.retain(|kept| kept.made.is_none());
        }
        self.let_go();
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting().next().is_some()
    }

    /// Whether checks wait that are about a table's rows.
    pub fn waits_on(&self, table: TableId) -> bool {
        self.waiting().any(|check| check.table() == table)
    }

    pub fn mark(&self) -> DeferredMark {
        DeferredMark { said: Arc::clone(&self.said), checks: self.checks.len(), rounds: self.rounds }
    }

    pub fn go_back(&mut self, mark: DeferredMark) {
        self.said = mark.said;
        self.checks.truncate(mark.checks);
        for kept in &mut self.checks {
            kept.made = kept.made.filter(|round| *round < mark.rounds);
        }
        self.let_go();
    }

    fn waiting(&self) -> impl Iterator<Item = &DeferredCheck> {
        self.checks.iter().filter(|kept| kept.made.is_none()).map(|kept| &kept.check)
    }

    fn let_go(&mut self) {
        if self.checks.is_empty() {
            (self.checks, self.held) = (Vec::new(), None);
        }
    }
}

fn is_of(check: &DeferredCheck, keys: Option<&[KeyId]>) -> bool {
    keys.is_none_or(|keys| keys.contains(&check.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(from: u32) -> KeyId {
        KeyId { from: TableId(from), columns: vec![1], to: TableId(9), referenced: vec![0] }
    }

    fn leave(deferred: &mut Deferred, memory: &Arc<Pool>, from: u32, row: u8) {
        let deferring = deferred.deferring(memory);
        deferring.leave(&Arc::new(key(from)), Checked::Row(Arc::new([row]))).unwrap();
        deferred.keep(deferring);
    }

    fn due(deferred: &Deferred, keys: Option<&[KeyId]>) -> Vec<u8> {
        let row = |check: DeferredCheck| match check.checked {
            Checked::Row(key) => key[0],
            Checked::Gone(_) => u8::MAX,
        };
        deferred.due(keys).into_iter().map(row).collect()
    }

    #[test]
    fn what_has_been_said_last_counts_for_keys_that_may_wait() {
        let mut deferred = Deferred::default();
        let shown = |deferred: &Deferred, of: u32| {
            [Deferral::Never, Deferral::InitiallyImmediate, Deferral::InitiallyDeferred]
                .map(|deferral| deferred.said.defers(&key(of), deferral))
        };
        assert_eq!(shown(&deferred, 1), [false, false, true]);
        deferred.say(Some(&[key(1)]), true);
        assert_eq!((shown(&deferred, 1), shown(&deferred, 2)), ([false, true, true], [false, false, true]));
        deferred.say(None, false);
        assert_eq!((shown(&deferred, 1), shown(&deferred, 2)), ([false; 3], [false; 3]));
        let mark = deferred.mark();
        deferred.say(None, true);
        deferred.say(Some(&[key(2)]), false);
        assert_eq!((shown(&deferred, 1), shown(&deferred, 2)), ([false, true, true], [false; 3]));
        deferred.go_back(mark);
        assert_eq!(shown(&deferred, 1), [false; 3]);
    }

    #[test]
    fn a_savepoint_takes_back_what_waits_and_what_was_made() {
        let memory = Arc::new(Pool::new(1 << 20));
        let mut deferred = Deferred::default();
        leave(&mut deferred, &memory, 1, 1);
        leave(&mut deferred, &memory, 2, 2);
        deferred.made(Some(&[key(2)]), true);
        let mark = deferred.mark();
        leave(&mut deferred, &memory, 1, 3);
        assert_eq!(due(&deferred, None), [1, 3]);
        deferred.made(None, true);
        assert!(!deferred.is_waiting() && !deferred.waits_on(TableId(1)));
        deferred.go_back(mark);
        assert_eq!((due(&deferred, None), due(&deferred, Some(&[key(2)]))), (vec![1], vec![]));
        assert!(deferred.waits_on(TableId(1)) && !deferred.waits_on(TableId(9)));
        deferred.made(None, false);
        assert!(!deferred.is_waiting() && deferred.held.is_none(), "their memory is let go of");
    }

    #[test]
    fn what_waits_is_counted() {
        let memory = Arc::new(Pool::new(1000));
        let deferring = Deferred::default().deferring(&memory);
        let row = || Checked::Row(Arc::from(&[0; 100][..]));
        let left = (0..100).find_map(|_| deferring.leave(&Arc::new(key(1)), row()).err()).unwrap();
        assert_eq!(left.sqlstate(), "53200");
    }
}
