//! Panics that a tester plants, to prove that one ends what it has to end and nothing else, and that what it ended
//! comes back.
//!
//! A program is told by its environment: with `SAKI_PANIC=published:3` it panics when it comes to that place for the
//! third time. Only programs built with debug assertions look; elsewhere it costs nothing.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! places {
    ($($(#[$about:meta])* $place:ident $name:literal,)*) => {
        /// Where one may be planted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Place {
            $($(#[$about])* $place,)*
        }

        impl Place {
            /// All of them, with their names.
            pub const ALL: &[(Self, &str)] = &[$((Self::$place, $name),)*];
        }
    };
}

places! {
    /// A statement writes a row.
    Writing "writing",
    /// A query has its turn at pages that have come.
    Querying "querying",
    /// A transaction that has changed the catalog is about to be committed.
    CommittingDraft "committing-draft",
    /// Some versions of a transaction are stamped, and its record is not left.
    Stamped "stamped",
    /// A transaction has ended, and those who wait for it have not heard.
    Finishing "finishing",
    /// Some of what a transaction wrote is taken back.
    TakingBack "taking-back",
    /// An entry of an index in memory is half written.
    Latched "latched",
    /// The rows of a transaction can be seen, and its catalog cannot.
    HalfSeen "half-seen",
    /// A generation is on the device, and not in memory.
    Published "published",
    /// Some locks of an owner are gone, and nobody has been told.
    Locks "locks",
    /// The thread that merges has looked at what is due.
    Checkpointer "checkpointer",
    /// A thread has been left errands to fetch pages.
    Fetcher "fetcher",
    /// The thread that moves chunks has looked at the devices.
    Mover "mover",
    /// The thread that archives has read records.
    Archiver "archiver",
}

impl Place {
    /// The place of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(place, _)| *place)
    }

    /// Whether what a panic breaks off there is one statement's own.
    pub fn is_of_a_statement(self) -> bool {
        matches!(self, Self::Writing | Self::Querying | Self::CommittingDraft)
    }
}

/// The environment's variable.
pub const VARIABLE: &str = "SAKI_PANIC";

static PLANTED: LazyLock<Option<(Place, AtomicU64)>> = LazyLock::new(|| planted(&std::env::var(VARIABLE).ok()?));

/// What `name:n` plants, and how often the place is to be passed.
fn planted(text: &str) -> Option<(Place, AtomicU64)> {
    let (name, times) = text.split_once(':')?;
    Some((Place::named(name)?, AtomicU64::new(times.parse().ok()?)))
}

/// Comes to a place.
///
/// # Panics
/// If that is planted there.
#[inline]
pub fn pass(place: Place) {
    if cfg!(debug_assertions)
        && let Some((planted, left)) = &*PLANTED
        && *planted == place
        // Relaxed: whoever takes the last one panics.
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        panic!("planted: {place:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_and_counted() {
        for (place, name) in Place::ALL {
            assert_eq!(Place::named(name), Some(*place));
            pass(*place);
        }
        let (place, left) = planted("published:3").expect("understood");
        assert_eq!((place, left.into_inner()), (Place::Published, 3));
        assert!(planted("published").is_none() && planted("nowhere:1").is_none() && planted("locks:x").is_none());
    }
}
