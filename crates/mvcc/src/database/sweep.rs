//! Freeing what runners keep that do nothing.

use super::Database;
use crate::error::Error;

impl Database {
    /// Frees what nobody can see any more and whoever made it has not freed: its runner does nothing, or has ended, and
    /// an old snapshot was there when it last did something. Whoever commits changes does the same by the way; this is
    /// for a thread that comes by now and then, so that memory does not wait for commits. In steps, so that no runner
    /// waits for it longer than for a thousand versions to be freed.
    ///
    /// # Errors
    /// `TooManyParticipants`: it takes one while it lasts.
    pub fn sweep(&self) -> Result<(), Error> {
        self.runner()?.sweep();
        Ok(())
    }

    /// Has time pass although nobody commits: what was unlinked just now is free to go only later than that. For when
    /// those who would commit wait for its memory.
    ///
    /// # Errors
    /// `TooManyParticipants`: it takes one while it lasts.
    pub fn let_time_pass(&self) -> Result<(), Error> {
        self.runner()?.take_time();
        Ok(())
    }

    /// Bytes of versions and rows that are out of use and not freed: some are still seen by old snapshots.
    pub fn garbage_bytes(&self) -> usize {
        let mut bytes = 0;
        self.shared().reclaimers.each(|garbage| bytes += garbage.bytes());
        bytes
    }
}
