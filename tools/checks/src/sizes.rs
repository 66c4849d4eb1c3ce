//! No source file longer than a reader can take in.

use crate::workspace::Workspace;

/// Most lines of a file.
pub const LINES_MAX: usize = 800;

/// Files that are longer.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let files = ["rs", "py", "sh"].into_iter().flat_map(|extension| workspace.files(extension));
    let lengths = files.map(|path| (workspace.text(&path).lines().count(), path));
    let long = lengths.filter(|(lines, _)| *lines > LINES_MAX);
    long.map(|(lines, path)| format!("{}: {lines} lines, at most {LINES_MAX}", path.display())).collect()
}
