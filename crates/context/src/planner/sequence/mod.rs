//! What a session has to do with sequences: their functions, and what it has drawn.

mod functions;
mod relation;
mod session;

pub use self::functions::register;
pub use self::relation::relation_of;
pub use self::session::SessionSequences;
