//! Faults that a tester plants into the engine, to prove that it would find them.
//!
//! Each is a mistake that is easy to make, and most have been made. Only programs built with debug assertions have
//! them; elsewhere none is ever planted, and asking costs nothing.

use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! faults {
    ($($(#[$about:meta])* $fault:ident $name:literal,)*) => {
        /// What may be planted.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        #[repr(u8)]
        pub enum Fault {
            /// None: as it should be.
            #[default]
            None,
            $($(#[$about])* $fault,)*
        }

        impl Fault {
            /// All of them, with their names.
            pub const ALL: &[(Self, &str)] = &[$((Self::$fault, $name),)*];
        }
    };
}

faults! {
    /// Rows that were merged leave memory while somebody still reads a generation without them.
    ReleaseEarly "release-early",
    /// Rows that were merged are asked of memory too, which some have left.
    MergedRowsAsked "merged-rows-asked",
    /// A log says of its newest record that it is durable, before it is.
    HeaderAhead "header-ahead",
    /// Recovery takes what it reads for durable.
    RecoveryUnflushed "recovery-unflushed",
    /// Logs are cut before the base has what was in them.
    LogsCutEarly "logs-cut-early",
    /// A superblock may reach the device before what it refers to.
    SuperblockEarly "superblock-early",
    /// Each delta of a table counts hidden row ids for itself.
    RowIdsRestart "row-ids-restart",
    /// Clients are told before it is durable.
    ReceiptIgnored "receipt-ignored",
    /// What one reader has made of newer rows is shown to others, who do not wait for their commits.
    OverlayForgets "overlay-forgets",
    /// A base that was built of newer rows is published before their commits are durable.
    BuiltEarly "built-early",
    /// A transaction lets go of its tables before what it did can be seen.
    LocksEarly "locks-early",
    /// Who begins to read while a transaction commits may see its rows and not its catalog.
    HalfSeen "half-seen",
    /// Who has waited for a table takes it for what it was before.
    OldDefinition "old-definition",
    /// What a query adds to an empty table is not looked up in the tables that it refers to.
    ReferencesUnchecked "references-unchecked",
    /// Values of a unique index are looked for among merged rows only.
    NewerRowsForgotten "newer-rows-forgotten",
    /// A tree that is dropped keeps its pages.
    TreeKept "tree-kept",
    /// Values of sequences are given out before it is durable that they were.
    SequenceEarly "sequence-early",
}

// Relaxed: set before there are other threads.
static PLANTED: AtomicU8 = AtomicU8::new(Fault::None as u8);

impl Fault {
    /// The fault of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(fault, _)| *fault)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("none", |(_, name)| name)
    }
}

/// Plants a fault in this process, in the place of any other.
pub fn plant(fault: Fault) {
    PLANTED.store(fault as u8, Ordering::Relaxed);
}

/// Whether this fault is planted.
#[inline]
pub fn is(fault: Fault) -> bool {
    cfg!(debug_assertions) && PLANTED.load(Ordering::Relaxed) == fault as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        for (fault, name) in Fault::ALL {
            assert_eq!((Fault::named(name), fault.name()), (Some(*fault), *name));
            assert!(!is(*fault), "nothing is planted");
        }
    }
}
