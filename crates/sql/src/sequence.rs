//! Values of sequences: given out from memory, in blocks that are made durable before.
//!
//! ```text
//!   handed ──────────► durable ─────────► reserved
//!   given out so far   may be given out   about to be durable
//! ```
//!
//! # Invariants
//! - No value is given out that a crash could make the sequence give out again: the catalog's position is behind it.
//! - A session whose query feeds a publication cannot wait for another one: it takes its values beyond what is durable, and they
//!   become durable with the rows that hold them, by the same commit. Nobody else gets values behind them before.
//!
//! Values that nobody has used when the database closes or a statement fails are lost: numbers are unique, and may have gaps.

mod functions;
mod session;

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use saki_base::TableId;

pub use self::functions::register;
pub use self::session::SessionSequences;
use crate::catalog::{Catalog, Sequence, SequencePosition};
use crate::database::Database;
use crate::error::{Result, SqlError};

/// Values that are made durable at once; doubled as long as a sequence is asked for more.
const BLOCK_MIN: u64 = 32;
const BLOCK_MAX: u64 = 4096;

/// How far the sequences of a database have come.
#[derive(Default)]
pub struct Sequences {
    states: Mutex<HashMap<TableId, State>>,
}

/// One sequence, since its version began.
struct State {
    /// Told from the state of the same sequence that took its place.
    token: Arc<()>,
    version: u32,
    /// Values given out.
    handed: u64,
    position: SequencePosition,
    /// Values that may be given out.
    durable: u64,
    /// What the next commit stores.
    reserved: u64,
    reserved_position: SequencePosition,
    block: u64,
}

impl State {
    fn new(sequence: &Sequence) -> Self {
        let position = sequence.position;
        Self {
            token: Arc::default(),
            version: sequence.version,
            handed: 0,
            position,
            durable: 0,
            reserved: 0,
            reserved_position: position,
            block: BLOCK_MIN.max(sequence.cache.unsigned_abs()),
        }
    }

    /// Counts on to a block behind what is given out; returns where it ends.
    fn reserve(&mut self, sequence: &Sequence) -> Result<(u64, SequencePosition)> {
        let (position, count) = sequence.skip(self.position, self.block);
        if count == 0 {
            return Err(exhausted(sequence));
        }
        let end = self.handed + count;
        if end > self.reserved {
            self.reserved = end;
            self.reserved_position = position;
        }
        self.block = (self.block * 2).min(BLOCK_MAX);
        Ok((end, position))
    }
}

/// Consecutive values of one sequence that one session has to itself.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    sequence: TableId,
    version: u32,
    position: SequencePosition,
    left: u64,
    /// [`State::handed`] when it was taken.
    end: u64,
}

impl Sequences {
    /// The next value. Waits for storage now and then.
    pub fn next(&self, db: &Database, name: &str) -> Result<(TableId, i64)> {
        loop {
            let sequence = find(&db.snapshot().catalog, name)?;
            let (end, token) = {
                let mut states = self.states.lock();
                let state = current(&mut states, &sequence);
                if state.handed < state.durable {
                    let next = sequence.step(state.position).ok_or_else(|| exhausted(&sequence))?;
                    state.handed += 1;
                    state.position = next;
                    return Ok((sequence.id, next.last_value));
                }
                (state.reserve(&sequence)?.0, Arc::clone(&state.token))
            };
            // Not under the lock: whoever publishes now may need values itself.
            db.write(|_| Ok(()))?;
            let mut states = self.states.lock();
            if let Some(state) = states.get_mut(&sequence.id).filter(|state| Arc::ptr_eq(&state.token, &token)) {
                state.durable = state.durable.max(end);
            }
        }
    }

    /// The next value for a session whose own publication will store the position; `block`: what it has left.
    pub fn next_unpublished(&self, db: &Database, name: &str, block: &mut Option<Block>) -> Result<(TableId, i64)> {
        let sequence = find(&db.snapshot().catalog, name)?;
        if block.is_none_or(|block| block.left == 0 || block.version != sequence.version) {
            let mut states = self.states.lock();
            let state = current(&mut states, &sequence);
            let (first, handed) = (state.position, state.handed);
            let (end, position) = state.reserve(&sequence)?;
            (state.handed, state.position) = (end, position);
            state.durable = state.durable.max(end);
            let (id, version, left) = (sequence.id, sequence.version, end - handed);
            *block = Some(Block { sequence: id, version, position: first, left, end });
        }
        let Some(block) = block else { return Err(SqlError::internal("a block of values is gone")) };
        let next = sequence.step(block.position).ok_or_else(|| exhausted(&sequence))?;
        block.position = next;
        block.left -= 1;
        Ok((sequence.id, next.last_value))
    }

    /// Takes back what is left of a block, unless values behind it have been given out.
    pub fn give_back(&self, block: Block) {
        let mut states = self.states.lock();
        let Some(state) = states.get_mut(&block.sequence) else { return };
        if state.version == block.version && state.handed == block.end {
            state.handed -= block.left;
            state.position = block.position;
            // The publication may have failed: what was counted as durable by it is made so again.
            state.durable = state.handed;
        }
    }

    /// Up to where values have been given out, for a change of the sequence: others get the next one when that has been published.
    pub fn take(&self, sequence: &Sequence) -> SequencePosition {
        let state = self.states.lock().remove(&sequence.id).filter(|state| state.version == sequence.version);
        state.map_or(sequence.position, |state| state.position)
    }

    /// Up to where values have been given out.
    pub fn position(&self, sequence: &Sequence) -> SequencePosition {
        let states = self.states.lock();
        let state = states.get(&sequence.id).filter(|state| state.version == sequence.version);
        state.map_or(sequence.position, |state| state.position)
    }

    /// Moves the catalog's positions to what has been reserved: part of every commit.
    pub fn store(&self, catalog: &mut Catalog) {
        let states = self.states.lock();
        for (id, state) in states.iter() {
            let Some(sequence) = catalog.sequences().find(|sequence| sequence.id == *id) else { continue };
            if sequence.version == state.version && sequence.position != state.reserved_position {
                let sequence = Sequence { position: state.reserved_position, ..Sequence::clone(sequence) };
                catalog.put_sequence(sequence);
            }
        }
    }
}

fn current<'s>(states: &'s mut HashMap<TableId, State>, sequence: &Sequence) -> &'s mut State {
    let state = states.entry(sequence.id).or_insert_with(|| State::new(sequence));
    if state.version != sequence.version {
        *state = State::new(sequence);
    }
    state
}

/// The sequence of a name.
pub fn find(catalog: &Catalog, name: &str) -> Result<Arc<Sequence>> {
    match catalog.sequence(name) {
        Some(sequence) => Ok(Arc::clone(sequence)),
        None if catalog.kind_of(name).is_some() => {
            Err(SqlError::invalid(format!("{name:?} is not a sequence")).code("42809"))
        }
        None => Err(crate::catalog::undefined(name)),
    }
}

fn exhausted(sequence: &Sequence) -> SqlError {
    let (bound, value) = if sequence.increment > 0 { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
    SqlError::data(format!("nextval: reached {bound} value of sequence {:?} ({value})", sequence.bare_name()))
        .code("2200H")
}

impl Sequence {
    /// The position one value on; `None`: there is no further value.
    pub fn step(&self, from: SequencePosition) -> Option<SequencePosition> {
        let called = |last_value| Some(SequencePosition { last_value, is_called: true });
        if !from.is_called {
            return called(from.last_value);
        }
        match from.last_value.checked_add(self.increment).filter(|next| (self.min..=self.max).contains(next)) {
            Some(next) => called(next),
            None if self.cycle => called(if self.increment > 0 { self.min } else { self.max }),
            None => None,
        }
    }

    /// The position up to `count` values on, and how many they are: fewer where the sequence ends or begins again.
    pub fn skip(&self, from: SequencePosition, count: u64) -> (SequencePosition, u64) {
        let Some(first) = self.step(from) else { return (from, 0) };
        let room = if self.increment > 0 {
            i128::from(self.max) - i128::from(first.last_value)
        } else {
            i128::from(first.last_value) - i128::from(self.min)
        };
        let steps = (room / i128::from(self.increment).abs()).min(i128::from(count) - 1).max(0);
        let last_value = i128::from(first.last_value) + steps * i128::from(self.increment);
        (SequencePosition { last_value: last_value as i64, is_called: true }, steps as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use saki_base::DataType;

    use super::*;
    use crate::database::{CreateOptions, OpenOptions};
    use crate::session::Session;

    async fn number(session: &Session, sql: &str) -> i64 {
        let result = session.execute(sql).await.unwrap().pop().unwrap();
        result.collect().await.unwrap()[0].column(0).as_primitive::<Int64Type>().value(0)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_value_is_given_out_twice_after_a_stop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("database");
        let database = Database::create(&path, CreateOptions::default()).unwrap();
        let session = database.session();
        session.execute("CREATE SEQUENCE s; CREATE TABLE t AS SELECT nextval('s') AS id").await.unwrap();
        assert_eq!(number(&session, "SELECT nextval('s')").await, 2);
        assert_eq!(number(&database.session(), "SELECT nextval('s')").await, 3);
        // Nothing is written at the end: what a stop at any time leaves.
        drop((session, database));
        let database = Database::open(&path, OpenOptions::default()).unwrap();
        let next = number(&database.session(), "SELECT nextval('s')").await;
        assert!((4..200).contains(&next), "{next}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sessions_get_values_of_their_own_while_others_publish() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path().join("database"), CreateOptions::default()).unwrap();
        database.session().execute("CREATE SEQUENCE s").await.unwrap();
        let fill = "CREATE TABLE t AS SELECT nextval('s') AS id FROM generate_series(1, 20000)";
        let filling = database.session();
        let filling = tokio::spawn(async move { filling.execute(fill).await.map(|_| ()) });
        let session = database.session();
        let mut others = Vec::new();
        for _ in 0..300 {
            others.push(number(&session, "SELECT nextval('s')").await);
        }
        filling.await.unwrap().unwrap();
        let list = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(number(&session, &format!("SELECT count(*) FROM t WHERE id IN ({list})")).await, 0);
        assert_eq!(number(&session, "SELECT count(DISTINCT id) FROM t").await, 20_000);
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 300);
    }

    fn sequence(start: i64, increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        let position = SequencePosition { last_value: start, is_called: false };
        let (id, name, schema) = (TableId(1), "s".to_owned(), "public".to_owned());
        let data_type = DataType::Int8;
        Sequence {
            id,
            name,
            schema,
            data_type,
            start,
            increment,
            min,
            max,
            cycle,
            cache: 1,
            owner: None,
            position,
            version: 0,
            comment: None,
        }
    }

    proptest::proptest! {
        #[test]
        fn skipping_is_stepping(increment in -7_i64..7, start in 1_i64..50, cycle: bool, count in 1_u64..40) {
            proptest::prop_assume!(increment != 0);
            let sequence = sequence(start, increment, 1, 50, cycle);
            let (skipped, steps) = sequence.skip(sequence.position, count);
            let mut position = sequence.position;
            for _ in 0..steps {
                position = sequence.step(position).unwrap();
            }
            proptest::prop_assert!((1..=count).contains(&steps));
            proptest::prop_assert_eq!(position, skipped);
        }
    }

    #[test]
    fn the_ends_of_what_fits() {
        let up = sequence(i64::MAX - 1, 1, 1, i64::MAX, false);
        let (end, count) = up.skip(up.position, 10);
        assert_eq!((end.last_value, count), (i64::MAX, 2));
        assert_eq!(up.step(end), None);
        let round = sequence(2, 1, 1, 2, true);
        let end = round.step(round.position).unwrap();
        assert_eq!(round.step(end).unwrap().last_value, 1);
    }
}
