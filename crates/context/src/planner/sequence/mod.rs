//! What a session has to do with sequences: their functions, and what it has drawn.

mod functions;
mod session;

pub use self::functions::register;
pub use self::session::SessionSequences;
