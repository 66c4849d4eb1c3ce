//! What of the machine's memory is for what, unless settings say otherwise.
//!
//! ```text
//!   sixteenths:  │ columns 4 │ deltas 2 │ pages 1 │ loads 1 │ statements 6 │ rest 2 │
//! ```
//!
//! Pages and loads take no more than a fixed size on large machines; what settings and these leave is for statements.
//! The rest is for what nobody counts: the program, its threads and connections, indexes of newer rows, batches that
//! are just being made.

use std::sync::OnceLock;

use super::machine::memory_bytes;

/// Into so many parts the memory is divided.
const PARTS: u64 = 16;
/// Page cache at most, unless told otherwise, in bytes.
const CACHE_BYTES_MAX: usize = 256 << 20;
/// Memory of a bulk load's sorts at most, unless told otherwise, in bytes.
const LOAD_MEMORY_BYTES_MAX: usize = 256 << 20;

/// Memory, as it is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    bytes: u64,
}

impl Budget {
    /// Of so many bytes.
    pub const fn of(bytes: u64) -> Self {
        Self { bytes }
    }

    /// Of what the machine has, or this process's group, as it was when somebody first asked.
    pub fn of_machine() -> Self {
        static BYTES: OnceLock<u64> = OnceLock::new();
        Self::of(*BYTES.get_or_init(memory_bytes))
    }

    fn parts(self, parts: u64) -> usize {
        usize::try_from(self.bytes / PARTS * parts).unwrap_or(usize::MAX)
    }

    /// For the cache of pages.
    pub fn pages(self) -> usize {
        self.parts(1).min(CACHE_BYTES_MAX)
    }

    /// For the cache of columns.
    pub fn columns(self) -> usize {
        self.parts(4)
    }

    /// For the sorts of a bulk load.
    pub fn loads(self) -> usize {
        self.parts(1).min(LOAD_MEMORY_BYTES_MAX)
    }

    /// For rows that are newer than what is stored.
    pub fn deltas(self) -> usize {
        self.parts(2)
    }

    /// For statements together, beside `others`: what caches, loads and deltas may take. However much that is, an
    /// eighth is left for them.
    pub fn statements(self, others: usize) -> usize {
        let counted = self.parts(PARTS).saturating_sub(self.parts(2));
        counted.saturating_sub(others).max(self.parts(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(budget: Budget) -> usize {
        budget.pages() + budget.columns() + budget.loads() + budget.deltas()
    }

    #[test]
    fn shares_never_exceed_what_there_is() {
        for mebibytes in [1, 64, 100, 512, 1 << 10, 2 << 10, 3_333, 4 << 10, 24 << 10, 1 << 20] {
            let (bytes, budget) = (mebibytes << 20, Budget::of(mebibytes << 20));
            let all = others(budget) + budget.statements(others(budget));
            assert!(all as u64 <= bytes - bytes / 8, "{mebibytes} MiB: {all}");
            assert!(budget.statements(others(budget)) as u64 >= bytes / 16 * 6, "{mebibytes} MiB");
        }
        assert!(others(Budget::of(u64::MAX)) > others(Budget::of(1 << 40)));
    }

    #[test]
    fn small_machines_have_small_caches() {
        let [half, one] = [512 << 20, 1 << 30].map(Budget::of);
        assert_eq!([half.pages(), half.columns(), half.loads(), half.deltas()].map(|it| it >> 20), [32, 128, 32, 64]);
        assert_eq!(half.statements(others(half)) >> 20, 192);
        assert_eq!([one.pages(), one.columns(), one.loads(), one.deltas()].map(|it| it >> 20), [64, 256, 64, 128]);
        assert_eq!(one.statements(others(one)) >> 20, 384);
    }

    #[test]
    fn what_pages_and_loads_leave_is_for_statements() {
        let budget = Budget::of(64 << 30);
        assert_eq!((budget.pages(), budget.loads()), (CACHE_BYTES_MAX, LOAD_MEMORY_BYTES_MAX));
        assert_eq!(budget.statements(others(budget)), (32 << 30) - (512 << 20));
        // Larger caches were asked for.
        assert_eq!(budget.statements(40 << 30), 16 << 30);
        assert_eq!(budget.statements(usize::MAX), 8 << 30);
    }
}
