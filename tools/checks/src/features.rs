//! No dependency is built twice, once for the workspace and once more for the tests of one crate.
//!
//! Cargo turns on the features that the packages it is asked for want. Those of the whole workspace want more of a
//! shared dependency than one crate does, so that `cargo test -p` would build it, and all above it, once more.
//! `saki-unify` asks for the difference. The crates below `columns` have few dependencies, and no one waits for those.

use std::collections::BTreeSet;
use std::process::Command;

use crate::workspace::{Package, Workspace};

/// Crates whose tests are built with the dependencies of the workspace's.
const UNIFIED: [&str; 11] = [
    "saki-columns",
    "saki-exec",
    "saki-catalog",
    "saki-store",
    "saki-plan",
    "saki-statement",
    "saki-system",
    "saki-postgres",
    "saki-context",
    "saki-sql",
    "saki-node",
];

/// Dependencies that are built with other features for one of [`UNIFIED`].
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let all = dependencies(workspace, &["--workspace"]);
    let of = |package: &'static str| {
        let own = dependencies(workspace, &["--package", package]);
        let other: Vec<String> = own.difference(&all).cloned().collect();
        other.into_iter().map(move |line| format!("{package} has its own {line}: name what is missing in tools/unify"))
    };
    UNIFIED.into_iter().flat_map(of).collect()
}

/// Dependencies of the packages with their features, as `name version [feature,feature]`.
fn dependencies(workspace: &Workspace, packages: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--prefix", "none", "--edges", "normal,build,dev", "--format", "{p} [{f}]"])
        .args(packages)
        .current_dir(&workspace.root)
        .output()
        .expect("cargo runs, or this test would not");
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    lines(&String::from_utf8_lossy(&output.stdout))
}

/// What `cargo tree` prints, without marks of what it printed before and without packages of ours.
fn lines(tree: &str) -> BTreeSet<String> {
    let line = |line: &str| line.trim_end_matches(" (*)").replace(" (proc-macro)", "");
    let of_others = |line: &&str| !line.split(' ').next().is_some_and(Package::is_ours);
    tree.lines().filter(|line| !line.is_empty()).filter(of_others).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_stands_twice_in_the_tree_counts_once() {
        let tree = "saki-base v0.1.0 (/here) []\nlibc v0.2.1 [std]\n\
                    serde_derive v1.0.1 (proc-macro) []\nlibc v0.2.1 [std] (*)\n";
        assert_eq!(lines(tree), ["libc v0.2.1 [std]", "serde_derive v1.0.1 []"].map(String::from).into());
    }
}
