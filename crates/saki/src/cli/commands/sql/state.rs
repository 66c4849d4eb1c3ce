//! What the commands of a shell or script work on.

use saki::Session;
use tokio::runtime::Runtime;

use crate::cli::output::Style;

/// A session and how its results are shown.
pub struct State<'r> {
    pub runtime: &'r Runtime,
    pub session: Session,
    /// For prompts and headings.
    pub name: String,
    pub style: Style,
    pub timing: bool,
}
