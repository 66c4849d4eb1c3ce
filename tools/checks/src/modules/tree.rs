//! The modules of a crate as its files lay them out, and where a path that one of them names leads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::names::{Named, Names, names_of};
use super::tokens::{tokens_of, without_tests};

/// A module's place: names from the crate's root on.
pub type Place = Vec<String>;

/// Re-exports may lead to re-exports; more than this are a circle of their own.
const STEPS_MAX: usize = 32;

/// The modules of one crate that have files, tests left out.
pub struct ModuleTree {
    modules: BTreeMap<Place, Module>,
}

struct Module {
    file: PathBuf,
    names: Names,
    children: BTreeSet<String>,
}

/// One file names what another has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub from: Place,
    pub to: Place,
    pub file: PathBuf,
    pub line: usize,
}

impl ModuleTree {
    /// Of a crate's files, as paths from its `src`, with their texts. The root is `lib.rs`, or `main.rs` without it.
    pub fn new(files: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let mut modules = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (file, text) in files {
            let place = place_of(&file);
            let (tokens, files_of_tests) = without_tests(tokens_of(&text));
            tests.extend(files_of_tests.into_iter().map(|name| child(&place, name)));
            modules.insert(place, Module { file, names: names_of(&tokens), children: BTreeSet::new() });
        }
        if let (false, Some(main)) = (modules.contains_key(&[][..]), modules.remove(&["main".to_owned()][..])) {
            modules.insert(Place::new(), main);
        }
        modules.retain(|place, _| !tests.iter().any(|test| place.starts_with(test)));
        let places: Vec<Place> = modules.keys().cloned().collect();
        for place in &places {
            let Some((name, parent)) = place.split_last() else { continue };
            if let Some(parent) = modules.get_mut(parent) {
                parent.children.insert(name.clone());
            }
        }
        Self { modules }
    }

    /// Every module's place; the root's is empty.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.modules.keys()
    }

    /// A module's file.
    pub fn file(&self, place: &[String]) -> &Path {
        self.modules.get(place).map_or(Path::new(""), |module| &module.file)
    }

    /// All that one module has of another. What a module only hands on is not its own use of it.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        for (place, module) in &self.modules {
            for named in module.names.named.iter().filter(|named| !self.is_handed_on(place, named)) {
                let start = within(place, named);
                let Some(to) = self.target(&start, &named.path, STEPS_MAX) else { continue };
                if to != *place {
                    let file = module.file.clone();
                    references.push(Reference { from: place.clone(), to, file, line: named.line });
                }
            }
        }
        references
    }

    /// A face (`mod.rs`, `lib.rs`) re-exports what its own rooms define, and does not use it itself.
    fn is_handed_on(&self, place: &Place, named: &Named) -> bool {
        let words = &self.modules[place].names.words;
        let public = named.import.as_ref().is_some_and(|import| import.public && !words.contains(&import.name));
        public && self.target(place, &named.path, STEPS_MAX).is_some_and(|to| to.starts_with(place))
    }

    /// The module that defines what `path`, named in `start`, leads to; `None` if it is not of this crate.
    fn target(&self, start: &[String], path: &[String], steps: usize) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => self.descend(&[], rest, steps),
            "self" => self.descend(start, rest, steps),
            "super" => {
                let (_, parent) = start.split_last()?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.target(parent, rest, steps),
                    _ => self.descend(parent, rest, steps),
                }
            }
            name => {
                let module = self.modules.get(start)?;
                module.children.contains(name).then(|| self.descend(&child(start, name.into()), rest, steps))?
            }
        }
    }

    fn descend(&self, place: &[String], path: &[String], steps: usize) -> Option<Place> {
        // A module written within a file is that file.
        let Some(module) = self.modules.get(place) else { return self.enclosing(place) };
        let steps = steps.checked_sub(1)?;
        let Some((name, rest)) = path.split_first() else { return Some(place.to_vec()) };
        if name == "*" {
            return Some(place.to_vec());
        }
        if module.children.contains(name) {
            return self.descend(&child(place, name.clone()), rest, steps);
        }
        let imports = || module.names.named.iter().filter(|named| named.import.is_some() && named.within.is_empty());
        if let Some(import) = imports().find(|named| named.import.as_ref().is_some_and(|import| import.name == *name)) {
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.target(place, &path, steps);
        }
        if module.names.defined.contains(name) {
            return Some(place.to_vec());
        }
        for glob in imports().filter(|named| named.path.last().is_some_and(|last| last == "*")) {
            let mut path = glob.path.clone();
            path.pop();
            path.push(name.clone());
            if let Some(found) = self.target(place, &path, steps).filter(|found| self.defines(found, name)) {
                return Some(found);
            }
        }
        Some(place.to_vec())
    }

    fn defines(&self, place: &[String], name: &String) -> bool {
        self.modules.get(place).is_some_and(|module| module.names.defined.contains(name))
    }

    /// The innermost module with a file around `place`.
    fn enclosing(&self, place: &[String]) -> Option<Place> {
        (0..=place.len())
            .rev()
            .map(|length| &place[..length])
            .find(|place| self.modules.contains_key(*place))
            .map(<[_]>::to_vec)
    }
}

fn within(place: &Place, named: &Named) -> Place {
    place.iter().chain(&named.within).cloned().collect()
}

fn child(place: &[String], name: String) -> Place {
    place.iter().cloned().chain([name]).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are `[a, b]`; `lib.rs` is the root.
fn place_of(file: &Path) -> Place {
    let mut place: Place = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    place.pop_if(|last| matches!(&**last, "mod" | "lib"));
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> ModuleTree {
        ModuleTree::new(files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())))
    }

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let references = tree(files).references();
        references.iter().map(|found| format!("{} {}", found.from.join("::"), found.to.join("::"))).collect()
    }

    #[test]
    fn a_path_leads_to_the_module_that_defines_it() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::c::X;"),
            ("b/mod.rs", "mod c;"),
            ("b/c.rs", "struct X;"),
        ];
        assert_eq!(arrows(&files), ["a b::c"]);
    }

    #[test]
    fn what_is_re_exported_is_looked_for_where_it_is_defined() {
        let files = [
            ("lib.rs", "mod a; mod b; mod d; pub use b::{X as Y}; pub use d::*;"),
            ("a.rs", "use crate::Y; fn f() { crate::Z::g() }"),
            ("b.rs", "pub struct X;"),
            ("d.rs", "pub struct Z;"),
        ];
        assert_eq!(arrows(&files), ["a b", "a d"]);
    }

    #[test]
    fn a_face_that_uses_a_room_is_seen() {
        let files = [("lib.rs", "mod a; fn f() { a::g() }"), ("a.rs", "use super::f;")];
        assert_eq!(arrows(&files), [" a", "a "]);
    }

    #[test]
    fn a_face_that_also_uses_what_it_re_exports_is_seen() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::X; pub use b::Y; struct Z(X);"),
            ("a.rs", "struct X;"),
            ("b.rs", "struct Y;"),
        ];
        assert_eq!(arrows(&files), [" a"]);
    }

    #[test]
    fn modules_of_tests_and_other_crates_are_left_out() {
        let files = [
            ("lib.rs", "mod a; #[cfg(test)] mod t;"),
            ("a.rs", "use std::fs::File;"),
            ("t/mod.rs", "use crate::a::X;"),
        ];
        assert_eq!(arrows(&files), [] as [&str; 0]);
    }

    #[test]
    fn super_within_a_module_of_the_file_is_the_file() {
        let files = [("lib.rs", "mod a;"), ("a.rs", "mod inner { use super::X; use super::super::Y; } struct X;")];
        assert_eq!(arrows(&files), ["a "]);
    }
}
