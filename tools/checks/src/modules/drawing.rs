//! The layers of every crate's modules, as `ARCHITECTURE.md` shows them.

use super::rooms::{FACE, Folder};
use super::tree_of;
use crate::workspace::Workspace;

/// Where the drawing is.
pub const PAGE: &str = "ARCHITECTURE.md";
/// What goes before and after it there.
const BEGIN: &str = "<!-- modules: written by `cargo run -p saki-checks -- graph` -->\n";
const END: &str = "<!-- end of modules -->\n";

/// Columns of a line, and of the crates' names.
const WIDTH: usize = 120;
const NAME_WIDTH: usize = 12;

/// For each crate its rooms in layers, the uppermost first; rooms on a line do not use each other.
pub fn drawing(workspace: &Workspace) -> String {
    let mut lines = vec!["```text".to_owned()];
    let mut crates: Vec<_> =
        workspace.packages.iter().filter(|package| package.directory.starts_with("crates")).collect();
    crates.sort_unstable_by_key(|package| &package.directory);
    for package in crates {
        let name = package.directory.file_name().unwrap_or_default().to_string_lossy();
        let mut label = name.into_owned();
        let folders = Folder::all(&tree_of(workspace, package));
        match folders.first().and_then(Folder::layers) {
            Some(layers) => {
                for layer in layers.iter().filter_map(|layer| line_of(layer)) {
                    lines.extend(wrapped(&std::mem::take(&mut label), &layer));
                }
            }
            None => lines.push(format!("{label:NAME_WIDTH$}a circle: see the rule")),
        }
    }
    lines.push("```".to_owned());
    lines.join("\n") + "\n"
}

/// A layer without the crate's face, which is above or below all others.
fn line_of(layer: &[&str]) -> Option<Vec<String>> {
    let rooms: Vec<String> =
        layer.iter().filter(|room| !matches!(**room, FACE | "main")).map(|room| (*room).to_owned()).collect();
    (!rooms.is_empty()).then_some(rooms)
}

/// `rooms` after `label`, on as many lines as it takes.
fn wrapped(label: &str, rooms: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{label:NAME_WIDTH$}")];
    for room in rooms {
        let line = lines.last_mut().expect("there is one");
        let is_first = line.trim_end().len() <= label.len();
        if !is_first && line.chars().count() + 2 + room.len() > WIDTH {
            lines.push(format!("{:NAME_WIDTH$}  {room}", ""));
            continue;
        }
        *line += if is_first { "" } else { "  " };
        *line += room;
    }
    lines
}

/// What is wrong with the page: the drawing is not there, or is an old one.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    match with_drawing(workspace) {
        None => vec![format!("{PAGE}: the markers of the drawing of modules are missing: {BEGIN}… {END}")],
        Some(text) if text == workspace.text(PAGE) => Vec::new(),
        Some(_) => vec![format!("{PAGE}: the drawing of modules is old: run `cargo run -p saki-checks -- graph`")],
    }
}

/// The page with the drawing as it should be; `None` without markers.
pub fn with_drawing(workspace: &Workspace) -> Option<String> {
    replaced(&workspace.text(PAGE), &drawing(workspace))
}

fn replaced(page: &str, drawing: &str) -> Option<String> {
    let start = page.find(BEGIN)? + BEGIN.len();
    let end = start + page[start..].find(END)?;
    Some(format!("{}{drawing}{}", &page[..start], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_goes_between_its_markers() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert_eq!(replaced("a\n", "new\n"), None);
    }

    #[test]
    fn long_layers_are_wrapped() {
        let rooms: Vec<String> = (0..30).map(|number| format!("room{number}")).collect();
        let lines = wrapped("name", &rooms);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("name        room0  room1"));
    }
}
