//! PostgreSQL's rules for types: what is unknown until it stands beside something, what operands are compared as, and
//! what UNION, CASE and the like choose.

mod calls;
mod common;
mod json;
mod known;
mod sides;
mod unknown;

pub use self::calls::{ANY_ARRAY, ANY_ELEMENT, ANY_ENUM, called};
pub use self::common::{Together, chosen, compared, do_not_match, no_operator};
pub use self::json::{Called, json_operator};
pub use self::known::known_type;
pub use self::sides::{compares, comparison, converted, is_interval, is_special, truth};
pub use self::unknown::{text_of, typed};
