//! Copies on fast devices: which policy chooses them, and when anything moves at all.

use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use saki_base::{PageAddress, SystemClock, TreeId};
use saki_tier::{PolicyKind, Tier, Wish};
use saki_volume::Volume;

use super::devices::speed::speed_of_model;
use super::{Database, OpenOptions};
use saki_catalog::{Catalog, Result, SqlError, Table, TableTier};

impl Database {
    /// What chooses the copies on fast devices.
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Has another policy choose from now on.
    ///
    /// # Errors
    /// If the database is open for reading only.
    pub fn set_tier_policy(&self, kind: PolicyKind) -> Result<()> {
        self.writable()?;
        self.tier.set_policy(kind);
        self.move_chunks()
    }

    /// Tells what moves chunks what tables are to have of it, as a catalog says.
    pub(crate) fn tell_wishes(&self, catalog: &Catalog) {
        if self.tier.set_wishes(wishes_of(catalog))
            && let Err(error) = self.move_chunks()
        {
            tracing::warn!("tables are not copied to fast devices: {error}");
        }
    }

    /// The same after a change of what was published before.
    pub(crate) fn follow_wishes(&self, before: &Catalog, catalog: &Catalog) {
        let mut changed = catalog.difference(before).tables.into_iter().flat_map(|table| [table.before, table.after]);
        if changed.any(|table| table.is_some_and(|table| table.tier != TableTier::Auto)) {
            self.tell_wishes(catalog);
        }
    }

    /// Tells the leaves of a table's tree that may have keys of a range: of an index by its position, or of the primary
    /// tree. `false` if what lies above them is not in memory.
    pub fn leaves(
        &self,
        table: &Table,
        index: Option<usize>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        each: &mut dyn FnMut(PageAddress),
    ) -> bool {
        let root = index.map_or(&table.root, |index| &table.indexes[index].root);
        let reader = self.cached_reader();
        let told = reader.leaves(root, bounds, |page| each(page.address));
        self.rest(reader);
        told.unwrap_or(false)
    }

    /// Has chunks moved from now on, if there is anything to move them to, and a policy or a table that asks for it.
    pub(crate) fn move_chunks(&self) -> Result<()> {
        let takes_copies = self.volume.devices().iter().any(|device| device.entry.role.copies);
        if self.options.read_only || !takes_copies || !self.tier.chooses() {
            return Ok(());
        }
        self.tier.start().map_err(|error| SqlError::storage(format!("the thread that moves chunks: {error}")))
    }
}

fn wishes_of(catalog: &Catalog) -> HashMap<TreeId, Wish> {
    let mut wishes = HashMap::new();
    for table in catalog.tables() {
        let wish = match table.tier {
            TableTier::Auto => continue,
            TableTier::Fast => Wish::Fast,
            TableTier::Slow => Wish::Slow,
        };
        let indexes = table.indexes.iter().map(|index| index.root.id);
        let directory = table.segments.iter().map(|segments| segments.directory.id);
        wishes.extend([table.root.id].into_iter().chain(indexes).chain(directory).map(|tree| (tree, wish)));
    }
    wishes
}

/// What looks after a volume that is being opened.
///
/// # Errors
/// If there is no such model as the options name.
pub fn tier_of(volume: &Arc<Volume>, options: &OpenOptions) -> Result<Tier> {
    let homes = speed_of_model(options, volume.page_size())?;
    Ok(Tier::new(Arc::clone(volume), options.tier_policy, Arc::new(SystemClock::default()), homes))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use saki_tier::PolicyKind;
    use saki_volume::Class;

    use crate::DeviceSpec;
    use crate::fixture::{Bench, Shape};

    const ROWS: i64 = 200_000;

    #[test]
    fn what_is_read_is_copied_while_the_database_is_used_and_stays_over_a_restart() {
        let mut bench = Bench::new(Shape::default());
        // More than lies with what publications go on writing, whose copies they drop.
        bench.load((0..ROWS).map(|id| (id, id % 7))).expect("loaded");
        let path = bench.path().with_file_name("fast");
        let fast = DeviceSpec { path, bytes: Some(64 << 20), class: Class::Fast };
        bench.db().add_device(&fast).expect("added");
        let copies = |bench: &Bench| bench.db().volume().copies().len();
        let read = |bench: &Bench| {
            bench.db().drop_caches();
            assert_eq!(bench.moment().range().len(), ROWS as usize);
        };
        read(&bench);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(copies(&bench), 0, "nothing chooses");
        bench.db().set_tier_policy(PolicyKind::Lru).expect("chosen");
        let began = Instant::now();
        while copies(&bench) < 3 {
            read(&bench);
            assert!(began.elapsed() < Duration::from_secs(20), "nothing is copied");
        }
        assert!(bench.db().tier().stats().promoted > 0);
        bench.check();
        bench.db().close().expect("closed");
        let kept = copies(&bench);
        bench.reopen();
        assert!(kept > 0 && copies(&bench) == kept);
        bench.db().start_engine().expect("closing has ended it");
        read(&bench);
        let devices = bench.db().devices();
        assert!(devices[1].reads.bytes > 0, "{devices:?}");
        assert_eq!(bench.db().volume().copies_distrusted(), 0);
        bench.check();
    }
}
