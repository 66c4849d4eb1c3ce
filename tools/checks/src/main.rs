//! `saki-checks`: writes what the rules only compare. The rules themselves are tests.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use saki_checks::modules::drawing;
use saki_checks::workspace::Workspace;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("graph") {
        eprintln!("saki-checks graph: writes the layers of modules into {}", drawing::PAGE);
        return ExitCode::FAILURE;
    }
    let workspace = Workspace::load();
    let Some(page) = drawing::with_drawing(&workspace) else {
        eprintln!("{}: the markers are missing", drawing::PAGE);
        return ExitCode::FAILURE;
    };
    match std::fs::write(workspace.root.join(drawing::PAGE), page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", drawing::PAGE);
            ExitCode::FAILURE
        }
    }
}
