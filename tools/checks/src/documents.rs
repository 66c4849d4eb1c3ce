//! What documents point at is there: links, and paths in code style.
//!
//! A path may begin anywhere above what it names: `log/src/horizon.rs` in a page about crates, `chain/` in one about
//! `mvcc`. It is there if a file or directory of the repository ends so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::workspace::Workspace;

/// What only exists once something has run.
const MADE: [&str; 4] = ["saki-demo/", "tour.saki.log/", "fuzz/corpus", "target/"];
/// What the last part of a path may end with; directories end with a slash.
const ENDINGS: [&str; 6] = [".rs", ".md", ".py", ".slt", ".txt", "/"];
/// Where a path begins that is checked whatever it ends with.
const ROOTS: [&str; 5] = ["crates/", "tools/", "docs/", "tests/", "fuzz/"];

/// Paths and links that lead nowhere.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let places = places(workspace);
    let mut violations = Vec::new();
    for page in workspace.files("md") {
        for (index, line) in workspace.text(&page).lines().enumerate() {
            let missing = spans(line).filter(|span| is_path(span) && !is_there(workspace, &places, span));
            let dead = links(line).filter(|link| !leads_somewhere(workspace, &page, link));
            let found = missing.chain(dead);
            violations.extend(found.map(|path| format!("{}:{}: there is no {path}", page.display(), index + 1)));
        }
    }
    violations
}

/// Files that are named in prose, and all directories above them, from the root.
fn places(workspace: &Workspace) -> BTreeSet<PathBuf> {
    let files = ["rs", "md", "py", "slt", "txt", "bin"].into_iter().flat_map(|extension| workspace.files(extension));
    files.flat_map(|file| file.ancestors().map(Path::to_owned).collect::<Vec<_>>()).collect()
}

fn is_there(workspace: &Workspace, places: &BTreeSet<PathBuf>, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    workspace.root.join(path).exists() || places.iter().any(|place| place.ends_with(path))
}

fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let named = ENDINGS.iter().any(|ending| span.ends_with(ending)) || ROOTS.iter().any(|root| span.starts_with(root));
    plain && named && span.len() > 1 && !span.starts_with(['/', '.']) && !MADE.iter().any(|made| span.starts_with(made))
}

/// What stands in code style in a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Targets of a line's links to other files of the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://")).filter_map(|target| target.split('#').next());
    files.filter(|file| !file.is_empty())
}

fn leads_somewhere(workspace: &Workspace, page: &Path, link: &str) -> bool {
    workspace.root.join(page).with_file_name(link).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_are_found_in_a_line() {
        let line =
            "`log/src/horizon.rs` of `saki-log`, `cargo test -p x`, [more](docs/io.md#lanes) and [all](https://x.y)";
        assert_eq!(spans(line).filter(|span| is_path(span)).collect::<Vec<_>>(), ["log/src/horizon.rs"]);
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/io.md"]);
    }

    #[test]
    fn a_path_is_there_if_a_place_ends_with_its_parts() {
        let workspace = Workspace { root: "/nowhere".into(), packages: Vec::new() };
        let places = BTreeSet::from([PathBuf::from("crates/log/src/horizon.rs"), PathBuf::from("crates/log/src")]);
        assert!(is_there(&workspace, &places, "src/horizon.rs") && is_there(&workspace, &places, "log/src/"));
        assert!(!is_there(&workspace, &places, "rizon.rs") && !is_there(&workspace, &places, "log/horizon.rs"));
    }
}
