//! PostgreSQL's rules for types: what is unknown until it stands beside something, what operands are compared as, and
//! what UNION, CASE and the like choose.

mod calls;
mod common;
mod sides;
mod unknown;

pub use self::calls::called;
pub use self::common::{Together, chosen, compared, do_not_match, no_operator};
pub use self::sides::{compares, comparison, converted, is_interval, is_special, known_type, truth};
pub use self::unknown::{text_of, typed};
