//! Dependencies between the modules of a crate point one way.
//!
//! In every folder of a crate, beginning with its `src`, the rooms (files, and folders taken as one) and the folder's
//! own face form a graph: one has an arrow to another if code in it names something that is defined in the other, by an
//! import or by a path written out. Re-exports are looked through, tests left out. The graph must have no circle, so
//! that the rooms can be put in layers and read from below: [`drawing`] shows the layers.

pub mod drawing;
mod names;
mod rooms;
mod tokens;
mod tree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use rooms::{FACE, Folder};
pub use tokens::{Token, length_of_group, tokens_of, without_tests};
pub use tree::ModuleTree;

use crate::workspace::{Package, Workspace};

/// Circles.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for package in &workspace.packages {
        let source = package.directory.join("src");
        for folder in Folder::all(&tree_of(workspace, package)) {
            violations.extend(circles(&source, &folder));
        }
    }
    violations
}

/// A package's modules.
pub fn tree_of(workspace: &Workspace, package: &Package) -> ModuleTree {
    let source = package.directory.join("src");
    let files = workspace.files("rs").into_iter();
    let inside = files.filter_map(|path| Some((path.strip_prefix(&source).ok()?.to_owned(), workspace.text(&path))));
    ModuleTree::new(inside)
}

/// The Rust files below a package's `src`, as paths from the root, in order, without files and folders of tests.
pub fn files_of_code(workspace: &Workspace, package: &Package) -> Vec<PathBuf> {
    let source = package.directory.join("src");
    let tree = tree_of(workspace, package);
    tree.places().map(|place| source.join(tree.file(place))).collect()
}

fn circles(source: &Path, folder: &Folder) -> Vec<String> {
    let mut violations = Vec::new();
    let place: PathBuf = source.iter().chain(folder.place.iter().map(OsStr::new)).collect();
    for circle in folder.circles() {
        let names: Vec<_> = circle.iter().copied().collect();
        violations.push(format!("{}: a circle of {}: {}", place.display(), names.len(), names.join(", ")));
        for room in &circle {
            for (used, at) in folder.rooms[*room].iter().filter(|(used, _)| circle.contains(&***used)) {
                let file = source.join(&at.file);
                violations.push(format!("    {room} uses {used}: {}:{}", file.display(), at.line));
            }
        }
    }
    violations
}
