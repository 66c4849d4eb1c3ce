//! Files, folders, functions and crates that a reader can take in, and lines that fit the screen.

use std::path::{Path, PathBuf};

use crate::functions::{Function, functions_of, lines_without_tests};
use crate::modules::files_of_code;
use crate::workspace::{Package, Workspace};

/// Most lines of a file.
pub const FILE_LINES_MAX: usize = 500;
/// Most columns of a line of Rust, code and comments.
pub const COLUMNS_MAX: usize = 120;
/// Most files and folders in a folder below a crate's `src`, and in that itself.
pub const ENTRIES_MAX: usize = 14;
/// Most lines of a crate's `src`: with comments and blank lines, without what is compiled for tests only.
pub const CRATE_LINES_MAX: usize = 12_000;
/// A function with more lines, from `fn` to its closing brace, is long.
pub const FUNCTION_LINES_MAX: usize = 60;
/// So many functions in a thousand, of all crates and tests, may be long.
pub const LONG_PER_THOUSAND_MAX: usize = 5;

/// Folders that may have more entries, and why.
const WIDE_FOLDERS: [(&str, &str); 1] = [("crates/saki/src/tpch/queries", "TPC-H has 22 queries")];

/// All that is too large.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = long_files(workspace);
    violations.extend(wide_lines(workspace));
    violations.extend(full_folders(workspace));
    violations.extend(large_crates(workspace));
    violations.extend(long_functions(workspace));
    violations
}

fn long_files(workspace: &Workspace) -> Vec<String> {
    let files = ["rs", "py", "sh"].into_iter().flat_map(|extension| workspace.files(extension));
    let lengths = files.map(|path| (workspace.text(&path).lines().count(), path));
    let long = lengths.filter(|(lines, _)| *lines > FILE_LINES_MAX);
    long.map(|(lines, path)| format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display())).collect()
}

fn wide_lines(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for path in workspace.files("rs") {
        for (index, line) in workspace.text(&path).lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let place = format!("{}:{}", path.display(), index + 1);
                violations.push(format!("{place}: {columns} columns, at most {COLUMNS_MAX}"));
            }
        }
    }
    violations
}

fn full_folders(workspace: &Workspace) -> Vec<String> {
    let sources = workspace.packages.iter().map(|package| package.directory.join("src"));
    let folders = sources.flat_map(|source| entries_of_folders(workspace, &source));
    let excused = |path: &Path| WIDE_FOLDERS.iter().any(|(wide, _)| path == Path::new(wide));
    let full = folders.filter(|(path, entries)| *entries > ENTRIES_MAX && !excused(path));
    full.map(|(path, entries)| format!("{}: {entries} entries, at most {ENTRIES_MAX}", path.display())).collect()
}

/// Every folder from `source` on with the number of files and folders in it.
fn entries_of_folders(workspace: &Workspace, source: &Path) -> Vec<(PathBuf, usize)> {
    let mut folders = Vec::new();
    let mut open = vec![source.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(workspace.root.join(&folder)) else { continue };
        let entries: Vec<_> = entries.flatten().collect();
        let directories = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(directories.map(|entry| folder.join(entry.file_name())));
        folders.push((folder, entries.len()));
    }
    folders
}

fn large_crates(workspace: &Workspace) -> Vec<String> {
    let lengths = workspace.packages.iter().map(|package| (package, lines_of(workspace, package)));
    let large = lengths.filter(|(_, lines)| *lines > CRATE_LINES_MAX);
    large.map(|(package, lines)| format!("{}: {lines} lines, at most {CRATE_LINES_MAX}", package.name)).collect()
}

fn lines_of(workspace: &Workspace, package: &Package) -> usize {
    files_of_code(workspace, package).iter().map(|path| lines_without_tests(&workspace.text(path))).sum()
}

/// Nothing if few enough functions are long; else the long ones, the longest first.
fn long_functions(workspace: &Workspace) -> Vec<String> {
    let (mut all, mut long) = (0, Vec::new());
    for path in workspace.files("rs") {
        for Function { name, line, lines } in functions_of(&workspace.text(&path)) {
            all += 1;
            if lines > FUNCTION_LINES_MAX {
                long.push((lines, format!("{}:{line}: {name} has {lines} lines", path.display())));
            }
        }
    }
    if long.len() * 1000 <= all * LONG_PER_THOUSAND_MAX {
        return Vec::new();
    }
    long.sort();
    let summary = format!("{} of {all} functions have more than {FUNCTION_LINES_MAX} lines", long.len());
    [summary].into_iter().chain(long.into_iter().rev().map(|(_, place)| place)).collect()
}
