//! Which crate may use which.
//!
//! ```text
//!   base ◄── io ◄──┐                                            ┌── plan ◄────┐
//!    ▲ ▲     ▲     ├── volume ◄── tree ◄── columns ◄── exec ◄───┤             ├── context ◄── sql ◄── node ◄── saki
//!    │ └── page ◄──┘                          │       catalog ◄─ store        │
//!    └──── vector ◄───────────────────────────┘                 └── postgres ◄┘
//!            ├── fabric ◄── remote (over page too)
//!            └── log ◄── mvcc (below catalog) ◄── tools/oltp
//!   volume ◄── tier ◄── store ◄── backup (over objects) ◄── sql
//! ```
//!
//! A layer's line says all it may name. Tests may name any layer below, which they set up as fixtures.

use crate::workspace::{Dependency, Package, Workspace};

const CATALOG: &[&str] =
    &["saki-base", "saki-page", "saki-volume", "saki-tree", "saki-vector", "saki-columns", "saki-exec", "saki-mvcc"];
const PARAMETERS: &[&str] = &["saki-base", "saki-catalog"];
const STORE: &[&str] = &[
    "saki-base",
    "saki-io",
    "saki-page",
    "saki-volume",
    "saki-tier",
    "saki-thin",
    "saki-tree",
    "saki-vector",
    "saki-columns",
    "saki-exec",
    "saki-mvcc",
    "saki-catalog",
];
const TIMES: &[&str] = &["saki-unify", "saki-base", "saki-catalog", "saki-parameters"];
const FUNCTIONS: &[&str] =
    &["saki-unify", "saki-base", "saki-vector", "saki-exec", "saki-catalog", "saki-parameters", "saki-times"];
const PLAN: &[&str] = &[
    "saki-unify",
    "saki-base",
    "saki-vector",
    "saki-columns",
    "saki-exec",
    "saki-catalog",
    "saki-settings",
    "saki-store",
    "saki-correlated",
];
const SYSTEM: &[&str] = &[
    "saki-unify",
    "saki-base",
    "saki-tree",
    "saki-catalog",
    "saki-parameters",
    "saki-store",
    "saki-statement",
    "saki-times",
];
const POSTGRES: &[&str] = &[
    "saki-unify",
    "saki-base",
    "saki-tree",
    "saki-exec",
    "saki-catalog",
    "saki-parameters",
    "saki-store",
    "saki-statement",
    "saki-system",
    "saki-times",
    "saki-functions",
];
const CONTEXT: &[&str] = &[
    "saki-unify",
    "saki-base",
    "saki-exec",
    "saki-mvcc",
    "saki-catalog",
    "saki-parameters",
    "saki-store",
    "saki-plan",
    "saki-system",
    "saki-postgres",
    "saki-functions",
];
const DDL: &[&str] = &[
    "saki-base",
    "saki-backup",
    "saki-tree",
    "saki-columns",
    "saki-catalog",
    "saki-parameters",
    "saki-store",
    "saki-plan",
    "saki-system",
    "saki-postgres",
    "saki-context",
];
const SQL: &[&str] = &[
    "saki-unify",
    "saki-base",
    "saki-exec",
    "saki-mvcc",
    "saki-catalog",
    "saki-parameters",
    "saki-store",
    "saki-plan",
    "saki-system",
    "saki-postgres",
    "saki-context",
    "saki-ddl",
];

/// A crate, and the crates of ours that it may name. Below first.
const LAYERS: [(&str, &[&str]); 42] = [
    ("saki-unify", &[]),
    ("saki-isolation", &[]),
    ("saki-base", &[]),
    ("saki-objects", &[]),
    ("saki-io", &["saki-base"]),
    ("saki-fabric", &["saki-base", "saki-io"]),
    ("saki-thin", &["saki-base", "saki-io", "saki-objects"]),
    ("saki-log", &["saki-base", "saki-io"]),
    ("saki-placement", &[]),
    ("saki-mvcc", &["saki-base", "saki-io", "saki-placement", "saki-log"]),
    ("saki-page", &["saki-base"]),
    ("saki-volume", &["saki-base", "saki-io", "saki-page"]),
    ("saki-tier", &["saki-base", "saki-io", "saki-volume"]),
    ("saki-tree", &["saki-base", "saki-page", "saki-volume"]),
    ("saki-remote", &["saki-base", "saki-io", "saki-fabric", "saki-page"]),
    ("saki-vector", &["saki-base"]),
    ("saki-columns", &["saki-base", "saki-page", "saki-volume", "saki-tree", "saki-vector"]),
    ("saki-exec", &["saki-base", "saki-page", "saki-volume", "saki-tree", "saki-vector", "saki-columns"]),
    ("saki-catalog", CATALOG),
    ("saki-parameters", PARAMETERS),
    ("saki-settings", &["saki-unify", "saki-exec", "saki-catalog"]),
    ("saki-times", TIMES),
    ("saki-functions", FUNCTIONS),
    ("saki-store", STORE),
    ("saki-backup", &["saki-base", "saki-objects", "saki-thin", "saki-catalog", "saki-store"]),
    ("saki-correlated", &["saki-unify", "saki-catalog"]),
    ("saki-plan", PLAN),
    ("saki-statement", &["saki-unify", "saki-base", "saki-catalog", "saki-store"]),
    ("saki-system", SYSTEM),
    ("saki-postgres", POSTGRES),
    ("saki-context", CONTEXT),
    ("saki-ddl", DDL),
    ("saki-sql", SQL),
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
            "saki-backup",
            "saki-sql",
            "saki-node",
        ],
    ),
    ("saki-report", &[]),
    ("saki-nodes", &["saki-base", "saki-io", "saki-fabric", "saki-page", "saki-volume", "saki-remote", "saki-report"]),
    ("saki-oltp", &["saki-base", "saki-io", "saki-log", "saki-mvcc", "saki-report"]),
    (
        "saki-bench",
        &[
            "saki-base",
            "saki-io",
            "saki-report",
            "saki-nodes",
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
            "saki-fabric",
            "saki-remote",
            "saki-log",
            "saki-mvcc",
            "saki-page",
            "saki-volume",
            "saki-vector",
            "saki-columns",
            "saki-node",
            "saki-sql",
        ],
    ),
    ("saki-sim", &["saki-base", "saki-io", "saki-volume", "saki-store", "saki-sql", "saki-unify"]),
    ("saki-checks", &[]),
];

/// Crates that hold columns: they and those above name Arrow's small crates.
const COLUMNAR: &[&str] = &[
    "saki-vector",
    "saki-columns",
    "saki-exec",
    "saki-catalog",
    "saki-store",
    "saki-times",
    "saki-functions",
    "saki-correlated",
    "saki-plan",
    "saki-statement",
    "saki-system",
    "saki-postgres",
    "saki-context",
    "saki-ddl",
    "saki-sql",
    "saki-node",
    "saki",
    "saki-bench",
    "saki-sim",
];
/// Crates that plan and run queries through DataFusion.
const PLANNING: &[&str] = &[
    "saki-times",
    "saki-functions",
    "saki-correlated",
    "saki-plan",
    "saki-statement",
    "saki-system",
    "saki-postgres",
    "saki-context",
    "saki-ddl",
    "saki-sql",
    "saki",
    "saki-bench",
    "saki-sim",
];

/// Dependencies that only some crates may name: the planner stays above `store`, Arrow's small crates reach down to
/// where columns are, the encodings have one home, and so has each way to the kernel.
const CONFINED: [(&str, &[&str]); 17] = [
    // Of `catalog` only by its feature `planner`, for the errors of those above: see [`planner`].
    (
        "datafusion",
        &[
            "saki-catalog",
            "saki-times",
            "saki-functions",
            "saki-correlated",
            "saki-plan",
            "saki-statement",
            "saki-system",
            "saki-postgres",
            "saki-context",
            "saki-ddl",
            "saki-sql",
            "saki",
            "saki-bench",
        ],
    ),
    (
        "arrow",
        &[
            "saki-unify",
            "saki-catalog",
            "saki-times",
            "saki-functions",
            "saki-store",
            "saki-correlated",
            "saki-plan",
            "saki-system",
            "saki-postgres",
            "saki-context",
            "saki-ddl",
            "saki-sql",
            "saki-node",
            "saki",
            "saki-bench",
        ],
    ),
    ("arrow-array", COLUMNAR),
    ("arrow-buffer", COLUMNAR),
    ("arrow-schema", COLUMNAR),
    ("arrow-select", COLUMNAR),
    ("arrow-ord", &["saki-vector"]),
    ("arrow-cast", &["saki-vector", "saki-sim"]),
    ("arrow-string", &["saki-vector"]),
    ("arrow-row", &["saki-vector"]),
    ("vortex", &["saki-columns"]),
    (
        "tokio",
        &[
            "saki-unify",
            "saki-objects",
            "saki-store",
            "saki-plan",
            "saki-context",
            "saki-sql",
            "saki-node",
            "saki",
            "saki-bench",
            "saki-sim",
        ],
    ),
    ("object_store", &["saki-objects"]),
    ("io-uring", &["saki-io"]),
    (
        "libc",
        &["saki-unify", "saki-base", "saki-io", "saki-fabric", "saki-placement", "saki-mvcc", "saki-nodes", "saki-sim"],
    ),
    ("ring", &["saki-fabric"]),
    ("socket2", &["saki-fabric"]),
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
        violations.extend(planner(package));
    }
    violations
}

/// Below the planner nobody turns on what makes `catalog` name it, or `store` could not be built without.
fn planner(package: &Package) -> Vec<String> {
    let catalog = package.dependencies.iter().filter(|dependency| dependency.name == "saki-catalog");
    let turned_on = catalog.filter(|dependency| dependency.features.iter().any(|feature| feature == "planner"));
    let wrong = turned_on.filter(|_| !PLANNING.contains(&&*package.name));
    wrong.map(|_| format!("{} may not turn on saki-catalog's feature `planner`", package.name)).collect()
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
        let dependency =
            Dependency { name: dependency.into(), version: "*".into(), development: false, features: Vec::new() };
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
    fn the_planner_does_not_come_in_by_a_feature() {
        let package = |name: &str| {
            let features = vec!["planner".to_owned()];
            let catalog = Dependency { name: "saki-catalog".into(), version: "*".into(), development: false, features };
            Package { name: name.into(), directory: "crates/x".into(), dependencies: vec![catalog] }
        };
        assert_eq!(planner(&package("saki-store")).len(), 1);
        assert!(planner(&package("saki-plan")).is_empty());
    }

    #[test]
    fn layers_are_written_from_below() {
        for (index, (name, allowed)) in LAYERS.iter().enumerate() {
            let below: Vec<_> = LAYERS[..index].iter().map(|(name, _)| name).collect();
            assert!(allowed.iter().all(|used| below.contains(&used)), "{name} uses what is not below it");
        }
    }
}
