//! In which generation, to which session, a prepared statement's names are known to mean what they meant.

use std::sync::Arc;

use parking_lot::Mutex;
use saki_base::GenerationNumber;
use saki_parameters::{Parameters, State};

/// The last answer, if it was yes: statements run far more often than definitions and parameters change.
///
/// Names mean what a catalog, a `search_path`, a role and the session's temporary schema make of them. The number of a
/// published generation stands for the first, the state of the parameters, which no two sessions share, for the others.
#[derive(Clone, Default, Debug)]
pub(crate) struct Current(Arc<Mutex<Option<Known>>>);

#[derive(Debug)]
struct Known {
    generation: GenerationNumber,
    state: Arc<State>,
}

impl Current {
    /// Whether it is known for a generation that is published, and a session.
    #[inline]
    pub fn is_known(&self, generation: GenerationNumber, session: &Parameters) -> bool {
        let known = self.0.lock();
        let is_its = |known: &Known| session.ask_state(|state| Arc::ptr_eq(&known.state, state));
        known.as_ref().is_some_and(|known| known.generation == generation && is_its(known))
    }

    /// From now on it is.
    pub fn know(&self, generation: GenerationNumber, state: Arc<State>) {
        *self.0.lock() = Some(Known { generation, state });
    }
}
