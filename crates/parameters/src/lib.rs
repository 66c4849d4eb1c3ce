//! The parameters of a session: PostgreSQL's, those of extensions, and names such as `my.own` that programs make up.
//!
//! `parameters.tsv` is the one table of them, a line each; [`Definition`] is such a line. What a session has set is
//! [`Parameters`]: SET lasts if its transaction commits, SET LOCAL until the transaction ends, and ROLLBACK, also to a
//! savepoint, brings back what was before. [`Effective`] is what they come to for whoever goes by them: time limits,
//! the [search path](SearchPath), how [times look and are read](TimeStyle). Whom the session acts for
//! ([`SessionRoles`]) is a parameter like others.
//!
//! # Invariants
//! - A parameter has its effect (`done`), says how something is to be done and never what (`advice`: costs, memory of
//!   an operator), or takes no value but its default (`fixed`). What would be ignored is refused: above all what guards
//!   or hides something, or promises a record.
//! - A [`State`] never changes: going back is having the old one again.
//!
//! # Failure model
//! A value that is refused changes nothing.
#![forbid(unsafe_code)]

mod accept;
mod definition;
mod effective;
mod input;
mod path;
mod roles;
mod session_time;
mod state;
mod style;
mod units;
mod values;
mod zone;

pub use accept::{Restricted, truth};
pub use definition::{Context, Definition, Effect, Kind, all, find};
pub use effective::{Effective, LogLevel, LoggedStatements, Logging};
pub use input::{Interval, Unit, is_relative, zone_named};
pub use path::{OWN_TEMPORARY, SearchPath, is_temporary, list as identifiers};
pub use roles::{ROLE, SESSION, SessionRoles};
pub use session_time::{Clock, SessionTime};
pub use state::{State, TransactionModes};
pub use style::{DateOrder, DateOutput, DateStyle, IntervalStyle, TimeStyle};
pub use units::{duration, show_with_unit};
pub use values::{Extension, Origin, Parameters, read_only};
pub use zone::{TimeZone, ZoneOffset};
