//! Why a statement does not come to its end without a plan.

use saki_catalog::SqlError;
use saki_context::transaction::Refusal;
use saki_context::values::expr::Misfit;
use saki_store::{Missing, Wanted};

/// A key and its row.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Why a statement does not come to its end here.
pub enum Stopped {
    /// It has to go the ordinary way.
    Ordinary,
    /// The same, since it takes too many entries.
    Long,
    /// This is not in memory.
    Read(Box<Missing>),
    Refused(Refusal),
}

impl Stopped {
    /// These are not in memory.
    pub fn away(wanted: Vec<Wanted>) -> Self {
        Self::Read(Box::new(Missing::Pages(wanted)))
    }
}

impl From<Missing> for Stopped {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Long => Self::Long,
            missing => Self::Read(Box::new(missing)),
        }
    }
}

impl From<Misfit> for Stopped {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Ordinary => Self::Ordinary,
            Misfit::Error(error) => error.into(),
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<SqlError> for Stopped {
    fn from(error: SqlError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<saki_mvcc::Error> for Stopped {
    fn from(error: saki_mvcc::Error) -> Self {
        Self::Refused(error.into())
    }
}
