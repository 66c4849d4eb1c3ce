//! Statements as they come and what they give: the text that was read, what a front end has to know of it, and results.

mod command;
mod parsed;
mod result;

pub use command::{Command, CopyFormat, CopyKind};
pub use parsed::{Parsed, parse};
pub use result::StatementResult;
pub use result::{rows, text_rows};
