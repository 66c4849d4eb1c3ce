//! Which crate may use which.
//!
//! ```text
//!   base ◄── io ◄──┐
//!    ▲ ▲     ▲     ├── volume ◄── tree ◄── columns ◄── exec ◄── sql ◄── node ◄── saki ◄── tools/bench
//!    │ └── page ◄──┘                          │                                      │
//!    └──── vector ◄───────────────────────────┘                                      │
//!            └── log ◄── mvcc ◄── tools/oltp ◄───────────────────────────────────────┘
//! ```
//!
//! A layer's line says all it may name. Tests may name any layer below, which they set up as fixtures.

use crate::workspace::{Dependency, Package, Workspace};

/// A crate, and the crates of ours that it may name. Below first.
const LAYERS: [(&str, &[&str]); 19] = [
    ("saki-unify", &[]),
    ("saki-base", &[]),
    ("saki-io", &["saki-base"]),
    ("saki-log", &["saki-base", "saki-io"]),
    ("saki-mvcc", &["saki-base", "saki-io", "saki-log"]),
    ("saki-page", &["saki-base"]),
    ("saki-volume", &["saki-base", "saki-io", "saki-page"]),
    ("saki-tree", &["saki-base", "saki-page", "saki-volume"]),
    ("saki-vector", &["saki-base"]),
    ("saki-columns", &["saki-base", "saki-page", "saki-volume", "saki-tree", "saki-vector"]),
    ("saki-exec", &["saki-base", "saki-page", "saki-volume", "saki-tree", "saki-vector", "saki-columns"]),
    (
        "saki-sql",
        &[
            "saki-base",
            "saki-io",
            "saki-mvcc",
            "saki-page",
            "saki-volume",
            "saki-tree",
            "saki-vector",
            "saki-columns",
            "saki-exec",
            "saki-unify",
        ],
    ),
    ("saki-node", &["saki-base", "saki-sql"]),
    (
        "saki",
        &[
            "saki-base",
            "saki-io",
            "saki-page",
            "saki-volume",
            "saki-tree",
            "saki-vector",
            "saki-columns",
            "saki-exec",
            "saki-sql",
            "saki-node",
        ],
    ),
    ("saki-report", &[]),
    ("saki-oltp", &["saki-base", "saki-io", "saki-log", "saki-mvcc", "saki-report"]),
    (
        "saki-bench",
        &[
            "saki-base",
            "saki-io",
            "saki-report",
            "saki-oltp",
            "saki-page",
            "saki-volume",
            "saki-tree",
            "saki-vector",
            "saki-columns",
            "saki-exec",
            "saki-sql",
            "saki",
        ],
    ),
    (
        "saki-fuzz",
        &[
            "saki-base",
            "saki-io",
            "saki-log",
            "saki-mvcc",
            "saki-page",
            "saki-volume",
            "saki-vector",
            "saki-columns",
            "saki-node",
        ],
    ),
    ("saki-checks", &[]),
];

/// Crates that hold columns: they and those above name Arrow's small crates.
const COLUMNAR: &[&str] = &["saki-vector", "saki-columns", "saki-exec", "saki-sql", "saki-node", "saki", "saki-bench"];

/// Dependencies that only some crates may name: the planner stays in and above `sql`, Arrow's small crates reach down to where columns
/// are, the encodings have one home, and so has each way to the kernel.
const CONFINED: [(&str, &[&str]); 14] = [
    ("datafusion", &["saki-sql", "saki", "saki-bench"]),
    ("arrow", &["saki-sql", "saki-node", "saki", "saki-bench"]),
    ("arrow-array", COLUMNAR),
    ("arrow-buffer", COLUMNAR),
    ("arrow-schema", COLUMNAR),
    ("arrow-select", COLUMNAR),
    ("arrow-ord", &["saki-vector"]),
    ("arrow-cast", &["saki-vector"]),
    ("arrow-string", &["saki-vector"]),
    ("arrow-row", &["saki-vector"]),
    ("vortex", &["saki-columns"]),
    ("tokio", &["saki-sql", "saki-node", "saki", "saki-bench"]),
    ("io-uring", &["saki-io"]),
    ("libc", &["saki-base", "saki-io", "saki-mvcc"]),
];

/// What is not allowed.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for package in &workspace.packages {
        match LAYERS.iter().find(|(name, _)| *name == package.name) {
            Some((_, allowed)) => violations.extend(upward(package, allowed)),
            None => violations.push(format!("{} has no place among the layers", package.name)),
        }
        violations.extend(confined(package));
    }
    violations
}

fn upward(package: &Package, allowed: &[&str]) -> Vec<String> {
    let below = || LAYERS.iter().map(|(name, _)| *name).take_while(|name| *name != package.name);
    let may = |dependency: &Dependency| {
        let name = &*dependency.name;
        name == package.name
            || allowed.contains(&name)
            || (dependency.development && below().any(|below| below == name))
    };
    let named = package.dependencies.iter().filter(|dependency| Package::is_ours(&dependency.name));
    let wrong = named.filter(|dependency| !may(dependency));
    wrong.map(|dependency| format!("{} may not name {}", package.name, dependency.name)).collect()
}

fn confined(package: &Package) -> Vec<String> {
    let may = |name: &str| {
        CONFINED.iter().find(|(found, _)| *found == name).is_none_or(|(_, by)| by.contains(&&*package.name))
    };
    // A family of crates is one dependency: datafusion-common is datafusion.
    let family = |name: &str| {
        let head = ["datafusion", "vortex"].into_iter().find(|head| name.starts_with(head));
        head.unwrap_or(name).to_owned()
    };
    let wrong = package.dependencies.iter().filter(|dependency| !may(&family(&dependency.name)));
    wrong.map(|dependency| format!("{} may not name {}", package.name, dependency.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependency: &str) -> Package {
        let dependency = Dependency { name: dependency.into(), version: "*".into(), development: false };
        Package { name: name.into(), directory: "crates/x".into(), dependencies: vec![dependency] }
    }

    #[test]
    fn an_arrow_that_turns_round_is_found() {
        let workspace = |name, dependency| Workspace { root: ".".into(), packages: vec![package(name, dependency)] };
        assert!(violations(&workspace("saki-exec", "saki-tree")).is_empty());
        assert_eq!(violations(&workspace("saki-tree", "saki-exec")).len(), 1);
        assert_eq!(violations(&workspace("saki-page", "saki-io")).len(), 1);
        assert_eq!(violations(&workspace("saki-exec", "datafusion-common")).len(), 1);
        assert_eq!(violations(&workspace("saki-exec", "vortex-array")).len(), 1);
        assert_eq!(violations(&workspace("saki-new", "serde")).len(), 1);
    }

    #[test]
    fn layers_are_written_from_below() {
        for (index, (name, allowed)) in LAYERS.iter().enumerate() {
            let below: Vec<_> = LAYERS[..index].iter().map(|(name, _)| name).collect();
            assert!(allowed.iter().all(|used| below.contains(&used)), "{name} uses what is not below it");
        }
    }
}
