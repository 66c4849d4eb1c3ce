//! An open transaction: what it ends with, and what it holds.

use std::sync::Arc;

use saki_base::memory::Reservation;
use saki_mvcc::Savepoint;
use saki_parameters::State;

use super::deferred::{Deferred, DeferredMark};
use super::level::Level;
use saki_store::locks::LockMark;
use saki_store::{DraftMark, Generation};

/// An open transaction.
pub struct Open {
    pub level: Level,
    pub access: Access,
    pub scope: Scope,
    /// A query of it has run.
    pub has_queried: bool,
    /// `None` before its first statement that reads or changes rows.
    pub begun: Option<Begun>,
    /// Checks of foreign keys that its end is to make.
    pub deferred: Deferred,
    /// Memory of what it has changed.
    pub waiting: Option<Reservation>,
}

/// What a transaction may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// What a transaction ends with.
pub enum Scope {
    /// The statement that began it.
    Statement,
    /// The message that its statements came in.
    Message,
    /// COMMIT or ROLLBACK.
    Block(Block),
}

/// Between BEGIN and COMMIT.
#[derive(Default)]
pub struct Block {
    pub health: Health,
    /// Names, oldest first; the same name may be there more than once, and the newest counts.
    pub savepoints: Vec<(String, Mark)>,
}

/// Whether a block hears statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Health {
    #[default]
    Sound,
    /// A statement has failed: only ROLLBACK, or going back to a savepoint, is heard.
    Failed,
}

/// What is gone back to.
#[derive(Clone)]
pub struct Mark {
    pub place: Place,
    /// What had been changed of the catalog; `None`: nothing.
    pub draft: Option<DraftMark>,
    pub access: Access,
    pub parameters: Arc<State>,
    pub deferred: DeferredMark,
    /// Locks that were taken later go.
    pub locks: LockMark,
}

/// The rows that are gone back to.
#[derive(Clone, Copy)]
pub enum Place {
    /// Nothing had been changed yet.
    Start,
    At(Savepoint),
}

/// What a transaction holds once it has a timestamp.
pub struct Begun {
    /// The generation that its timestamp goes with.
    pub generation: Arc<Generation>,
    /// Nothing was written yet.
    pub start: Savepoint,
    pub work: Work,
}

/// Whether a statement of a transaction is changing rows.
#[derive(Clone, Copy)]
pub enum Work {
    None,
    /// Its changes go, back to here, if it does not come to its end.
    UnderWay(Savepoint),
}

impl Open {
    pub fn new(level: Level, access: Access, scope: Scope) -> Self {
        let deferred = Deferred::default();
        Self { level, access, scope, has_queried: false, begun: None, deferred, waiting: None }
    }

    /// The block that BEGIN has opened.
    pub fn block(&self) -> Option<&Block> {
        match &self.scope {
            Scope::Block(block) => Some(block),
            Scope::Statement | Scope::Message => None,
        }
    }

    pub fn block_mut(&mut self) -> Option<&mut Block> {
        match &mut self.scope {
            Scope::Block(block) => Some(block),
            Scope::Statement | Scope::Message => None,
        }
    }

    /// Whether something of it may be taken back while it goes on.
    pub fn may_go_back(&self) -> bool {
        self.block().is_some_and(|block| !block.savepoints.is_empty())
    }

    /// Whether nothing but its end is heard.
    pub fn has_failed(&self) -> bool {
        self.block().is_some_and(|block| block.health == Health::Failed)
    }

    /// Whether it goes on when the statement ends that began it.
    pub fn outlives_statement(&self) -> bool {
        match self.scope {
            Scope::Statement => false,
            Scope::Message | Scope::Block(_) => true,
        }
    }
}
