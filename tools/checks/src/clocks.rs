//! The machine's clock may be set back, so it is read in one place, for what people are told; nothing that has to be
//! right goes by it.

use std::path::Path;

use crate::source::{code_of, has_word};
use crate::workspace::Workspace;

/// Where the clock is read.
const CLOCK: &str = "crates/base/src/time/clock.rs";
/// Who may ask for the time, and what for.
const ALLOWED: [(&str, &str); 7] = [
    ("crates/base/src/lib.rs", "names it"),
    ("crates/system", "when a session began, for those who ask"),
    ("crates/store/src/locks/waits.rs", "since when a lock is waited for, for those who ask"),
    ("crates/parameters/src/session_time/clock.rs", "now(), when a transaction and a statement began"),
    ("crates/times/src/clock.rs", "clock_timestamp()"),
    ("crates/backup", "when a backup was made and what was durable when, for those who choose a moment"),
    ("crates/node/src", "when clients connected and statements began, for those who ask"),
];

/// Where it is read or asked for otherwise.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for path in workspace.files("rs").into_iter().filter(|path| path.starts_with("crates") && path != Path::new(CLOCK))
    {
        let may_ask = ALLOWED.iter().any(|(allowed, _)| path.starts_with(allowed));
        for (index, line) in code_of(&workspace.text(&path)).lines().enumerate() {
            if has_word(line, "SystemTime") || (has_word(line, "wall_micros") && !may_ask) {
                violations.push(format!("{}:{}: the wall clock decides nothing here", path.display(), index + 1));
            }
        }
    }
    violations
}
