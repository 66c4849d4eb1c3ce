//! The rooms of a folder and who of them uses whom.
//!
//! A room is what stands in a folder: a file, or a folder with all that is in it. A folder's face (`lib.rs`, `mod.rs`,
//! or the file of the folder's name beside it) is a room among the others: it may use them, or they it, but not both.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{ModuleTree, Place, Reference};

/// The rooms of one folder.
pub struct Folder {
    /// Its module; empty for a crate's root.
    pub place: Place,
    /// Every room with the rooms that it uses, and where it first names each.
    pub rooms: BTreeMap<String, BTreeMap<String, Reference>>,
}

/// How the face is called among the rooms.
pub const FACE: &str = "mod";

impl Folder {
    /// The folders of a crate, the root first.
    pub fn all(tree: &ModuleTree) -> Vec<Self> {
        let references = tree.references();
        let parents: BTreeSet<&[String]> = tree.places().filter_map(|place| Some(place.split_last()?.1)).collect();
        parents.into_iter().map(|place| Self::new(place, tree, &references)).collect()
    }

    fn new(place: &[String], tree: &ModuleTree, references: &[Reference]) -> Self {
        let room =
            |of: &Place| of.starts_with(place).then(|| of.get(place.len()).cloned().unwrap_or_else(|| FACE.into()));
        let mut rooms: BTreeMap<String, BTreeMap<String, Reference>> =
            tree.places().filter_map(room).map(|room| (room, BTreeMap::new())).collect();
        for reference in references {
            let (Some(from), Some(to)) = (room(&reference.from), room(&reference.to)) else { continue };
            if from != to {
                rooms.entry(from).or_default().entry(to).or_insert_with(|| reference.clone());
            }
        }
        Self { place: place.to_vec(), rooms }
    }

    /// Sets of rooms of which each uses, over others of the set, every other.
    pub fn circles(&self) -> Vec<BTreeSet<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self.rooms.keys().map(|room| (&**room, self.reach(room))).collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for (room, reached) in &reach {
            if reached.contains(room) && !circles.iter().any(|circle| circle.contains(room)) {
                circles.push(reached.iter().copied().filter(|other| reach[other].contains(room)).collect());
            }
        }
        circles
    }

    /// The rooms in layers, the uppermost first: each uses only rooms of the layers below. `None` if there is a circle.
    pub fn layers(&self) -> Option<Vec<Vec<&str>>> {
        let mut left: BTreeSet<&str> = self.rooms.keys().map(String::as_str).collect();
        let mut layers = Vec::new();
        while !left.is_empty() {
            let lowest = |room: &&str| self.rooms[*room].keys().all(|used| !left.contains(&**used));
            let layer: Vec<&str> = left.iter().copied().filter(lowest).collect();
            if layer.is_empty() {
                return None;
            }
            left.retain(|room| !layer.contains(room));
            layers.push(layer);
        }
        layers.reverse();
        Some(layers)
    }

    /// All that `room` uses, and what they use.
    fn reach<'a>(&'a self, room: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![room];
        while let Some(room) = open.pop() {
            open.extend(self.rooms[room].keys().map(String::as_str).filter(|used| reached.insert(*used)));
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn folders(files: &[(&str, &str)]) -> Vec<Folder> {
        Folder::all(&ModuleTree::new(files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned()))))
    }

    #[test]
    fn a_circle_between_rooms_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::X;"),
            ("b/mod.rs", "mod e;"),
            ("b/e.rs", "use crate::c;"),
            ("c.rs", "use super::a::Y;"),
            ("d.rs", "use crate::a;"),
        ];
        let folders = folders(&files);
        assert_eq!(folders[0].circles(), [BTreeSet::from(["a", "b", "c"])]);
        assert_eq!(folders[0].layers(), None);
        assert!(folders[1].circles().is_empty());
    }

    #[test]
    fn a_face_and_a_room_that_use_each_other_are_a_circle() {
        let files = [("lib.rs", "mod a;"), ("a/mod.rs", "mod b; struct X(b::Y);"), ("a/b.rs", "use super::X;")];
        assert_eq!(folders(&files)[1].circles(), [BTreeSet::from(["b", FACE])]);
    }

    #[test]
    fn a_face_that_hands_on_what_its_rooms_define_uses_none_of_them() {
        let files = [("lib.rs", "mod a;"), ("a/mod.rs", "mod b; pub use b::Y; struct X;"), ("a/b.rs", "use super::X;")];
        let folders = folders(&files);
        assert!(folders[1].circles().is_empty());
        assert_eq!(folders[1].layers(), Some(vec![vec!["b"], vec![FACE]]));
    }
}
