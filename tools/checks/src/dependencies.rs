//! Every dependency of a manifest stands in `docs/dependencies.md`, with its
//! version and the crates it enters; and nothing else stands there.
//!
//! ```text
//! | `io-uring` | 0.7.15 | io | why it is here |
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{Package, Workspace};

const PAGE: &str = "docs/dependencies.md";

/// What a manifest, or the page, says of one dependency.
#[derive(Default, PartialEq, Debug)]
struct Entry {
    version: String,
    crates: BTreeSet<String>,
    reason: String,
}

/// What is not as it should be.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let (named, documented) = (named(workspace), documented(&workspace.text(PAGE)));
    let mut violations = Vec::new();
    for (name, entry) in &named {
        match documented.get(name) {
            None => violations.push(format!("{name} is not in {PAGE}: say what it is for")),
            Some(page) => violations.extend(differences(name, entry, page)),
        }
    }
    let stale = documented.keys().filter(|name| !named.contains_key(*name));
    violations.extend(stale.map(|name| format!("{name} is in {PAGE}, but no manifest names it")));
    violations
}

fn differences(name: &str, manifest: &Entry, page: &Entry) -> Vec<String> {
    let mut violations = Vec::new();
    if manifest.version != page.version {
        violations.push(format!("{name} is at version {}, {PAGE} says {}", manifest.version, page.version));
    }
    if manifest.crates != page.crates {
        let of = |crates: &BTreeSet<String>| crates.iter().cloned().collect::<Vec<_>>().join(", ");
        violations.push(format!("{name} enters {}, {PAGE} says {}", of(&manifest.crates), of(&page.crates)));
    }
    if page.reason.is_empty() {
        violations.push(format!("{name} has no reason in {PAGE}"));
    }
    violations
}

/// Dependencies of all manifests, with the crates that name them: by short name, in parentheses if for tests only.
fn named(workspace: &Workspace) -> BTreeMap<String, Entry> {
    let mut named: BTreeMap<String, Entry> = BTreeMap::new();
    for package in &workspace.packages {
        let short = package.name.strip_prefix("saki-").unwrap_or(&package.name);
        for dependency in package.dependencies.iter().filter(|dependency| !Package::is_ours(&dependency.name)) {
            let entry = named.entry(dependency.name.clone()).or_default();
            entry.version = dependency.version.trim_start_matches(['^', '=']).to_owned();
            entry.crates.insert(if dependency.development { format!("({short})") } else { short.to_owned() });
        }
    }
    named
}

/// The page's tables: rows that begin with a name in code style.
fn documented(page: &str) -> BTreeMap<String, Entry> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once('`')?;
        let cells: Vec<&str> = rest.trim_start_matches(" |").split('|').map(str::trim).collect();
        let crates = cells.get(1)?.split(", ").map(String::from).collect();
        let entry = Entry { version: (*cells.first()?).into(), crates, reason: (*cells.get(2)?).into() };
        Some((name.to_owned(), entry))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read() {
        let page = documented("text\n| crate | version |\n| `io-uring` | 0.7.15 | io, (page) | the kernel's rings |\n");
        let crates = ["io", "(page)"].map(String::from).into();
        let entry = Entry { version: "0.7.15".into(), crates, reason: "the kernel's rings".into() };
        assert_eq!(page, BTreeMap::from([("io-uring".into(), entry)]));
    }
}
