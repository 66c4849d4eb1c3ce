//! Waiting until deltas have room for more rows.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::database::Database;
use crate::locks::Stop;
use saki_catalog::{Result, SqlError};

/// Between two looks whether there is room.
const PAUSE: Duration = Duration::from_millis(10);

impl Database {
    /// Whether deltas have room for more rows. Whoever is about to change rows asks before it takes its snapshot: what
    /// it sees stays in memory for as long as it sees it.
    #[inline]
    pub fn has_room(&self) -> bool {
        let room = &self.of_table.room;
        self.engine.get().is_none_or(|engine| room.is_open(&engine.database) || self.has_room_beside_resident())
    }

    /// Looks once more, with what resident tables take now.
    #[cold]
    fn has_room_beside_resident(&self) -> bool {
        self.count_resident();
        self.engine.get().is_none_or(|engine| self.of_table.room.is_open(&engine.database))
    }

    /// Tells the room what resident tables take of memory.
    pub(super) fn count_resident(&self) {
        let generation = self.generation();
        let resident = generation.catalog.tables().filter(|table| table.resident);
        let bytes = resident.filter_map(|table| generation.delta(table)).map(|delta| delta.bytes()).sum();
        self.of_table.room.set_resident(bytes);
    }

    /// Waits until deltas have room, for a while; whether they have. The checkpoint under way goes on meanwhile, and
    /// the next.
    ///
    /// # Errors
    /// 57014 once it is told to stop.
    pub fn wait_for_room(&self, stop: &Stop, patience: Duration) -> Result<bool> {
        let began = Instant::now();
        loop {
            stop.check()?;
            if self.has_room() {
                return Ok(true);
            }
            if began.elapsed() >= patience {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Why there is no room, as far as that is known: 53200.
    pub fn no_room(&self) -> SqlError {
        let (used, limit) = match self.engine.get() {
            Some(engine) => (self.of_table.room.used(&engine.database), self.of_table.room.limit()),
            None => (0, self.of_table.room.limit()),
        };
        let message = format!("out of memory: newer rows take {used} bytes, of {limit} that they may take");
        let error = SqlError::invalid(message).code("53200");
        let Some((number, superseded)) = self.oldest_in_use() else {
            return error
                .detail("No old snapshot holds them: they are written faster than they are merged.")
                .hint("repeat the statement later, commit after fewer rows, or give newer rows more --delta-memory");
        };
        let mut detail = format!("A snapshot that is older than {} seconds holds them", superseded.elapsed().as_secs());
        let session = self.locks().oldest_seen().filter(|(_, seen)| *seen == number);
        if let Some((process, _)) = session {
            // Writing to a text does not fail.
            let _ = write!(detail, ": that of the transaction of process {process}");
        }
        detail.push('.');
        let hint = match session {
            Some((process, _)) => format!("end that transaction, or SELECT pg_terminate_backend({process})"),
            None => "end the transaction, query or cursor that has run longest: see pg_stat_activity".to_owned(),
        };
        error.detail(detail).hint(hint)
    }
}
