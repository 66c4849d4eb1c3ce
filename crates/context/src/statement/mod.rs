//! Statements as they come and what they give: the text that was read, what a front end has to know of it, and results.

mod command;
mod parsed;
mod resolve;
mod result;
mod text_cache;

pub use command::{Assignment, Bound, Command, Discarded, TableName, shown_name};
pub use parsed::{Names, Parsed, parse};
pub use resolve::{
    Found, Scope, complete_type, is_about_types, makes_temporary, resolve, resolve_relation, resolve_type,
    resolve_types, spell_types,
};
pub use result::StatementResult;
pub use result::rows;
pub use text_cache::TextCache;
