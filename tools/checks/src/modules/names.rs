//! What a file names: the paths that it imports or writes out, what it defines, and which modules stand within it.

use std::collections::BTreeSet;

use super::tokens::{Token, length_of_group};

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The module within the file where it stands, from the file's own: mostly none.
    pub within: Vec<String>,
    /// `crate::a::B` as its parts; `*` last for all that is there.
    pub path: Vec<String>,
    /// What an import calls it here; `None` of a path written out in code.
    pub import: Option<Import>,
    pub line: usize,
}

/// How an import brings a name in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub name: String,
    /// It hands the name on to others (`pub use`, `pub(crate) use`).
    pub public: bool,
}

/// What a file says about modules.
#[derive(Debug, Default)]
pub struct Names {
    pub named: Vec<Named>,
    /// Items and modules that the file itself defines.
    pub defined: Vec<String>,
    /// Words outside of imports; without names of modules and functions where they are defined, and of methods and
    /// fields.
    pub words: BTreeSet<String>,
}

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];

/// Names of a file's code.
pub fn names_of(tokens: &[Token]) -> Names {
    let mut names = Names::default();
    // Modules written within the file, each with the depth of its brace.
    let mut within: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    while at < tokens.len() {
        let text = &*tokens[at].text;
        let next = |ahead: usize| tokens.get(at + ahead).map_or("", |token| &*token.text);
        if tokens[at].is_word() && !names_a_thing(&tokens[..at]) {
            names.words.insert(text.to_owned());
        }
        let place = || within.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match text {
            "{" => depth += 1,
            "}" => {
                within.pop_if(|(_, opened)| *opened == depth);
                depth = depth.saturating_sub(1);
            }
            "mod" if next(2) == "{" => {
                names.defined.extend(within.is_empty().then(|| next(1).to_owned()));
                within.push((next(1).to_owned(), depth + 1));
                depth += 1;
                at += 2;
            }
            "macro_rules" if next(1) == "!" => names.defined.push(next(2).to_owned()),
            "use" if next(1) != "<" => {
                let length = tokens[at..].iter().take_while(|token| token.text != ";").count();
                let tree = UseTree { within: place(), public: is_public(&tokens[..at]) };
                tree.leaves(&tokens[at + 1..at + length], &[], &mut names.named);
                at += length;
            }
            _ if ITEMS.contains(&text) => names.defined.push(next(1).to_owned()),
            _ if tokens[at].is_word() && next(1) == "::" && !follows_path(&tokens[..at]) => {
                let path = path_of(&tokens[at..]);
                let length = path.len() * 2 - 1;
                names.named.push(Named { within: place(), path, import: None, line: tokens[at].line });
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    names
}

/// Whether the last of `before` is a sign after which a word does not begin a path.
fn follows_path(before: &[Token]) -> bool {
    before.last().is_some_and(|token| matches!(&*token.text, "::" | "." | "'"))
}

/// Whether a word after `before` is the name of what is defined there, or of what another thing has.
fn names_a_thing(before: &[Token]) -> bool {
    before.last().is_some_and(|token| matches!(&*token.text, "mod" | "fn" | "." | "::"))
}

fn is_public(before: &[Token]) -> bool {
    before.last().is_some_and(|token| token.text == "pub" || token.text == ")")
}

/// `a::b::C` from the front of `tokens`.
fn path_of(tokens: &[Token]) -> Vec<String> {
    let mut path = vec![tokens[0].text.clone()];
    for two in tokens[1..].chunks_exact(2) {
        if two[0].text != "::" || !two[1].is_word() {
            break;
        }
        path.push(two[1].text.clone());
    }
    path
}

/// `use`, from after the word to before the semicolon.
struct UseTree {
    within: Vec<String>,
    public: bool,
}

impl UseTree {
    fn leaves(&self, tokens: &[Token], prefix: &[String], leaves: &mut Vec<Named>) {
        let mut path = prefix.to_vec();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match &*token.text {
                "::" => {}
                "{" => {
                    let length = length_of_group(&tokens[at..]);
                    for branch in branches(&tokens[at + 1..at + length - 1]) {
                        self.leaves(branch, &path, leaves);
                    }
                    return;
                }
                "as" => break,
                word => path.push(word.to_owned()),
            }
            at += 1;
        }
        let Some(line) = tokens.first().map(|token| token.line) else { return };
        path.pop_if(|last| last == "self" && !prefix.is_empty());
        let renamed = tokens.get(at + 1).map(|token| token.text.clone());
        let Some(name) = renamed.or_else(|| path.last().cloned()) else { return };
        let import = Some(Import { name, public: self.public });
        leaves.push(Named { within: self.within.clone(), path, import, line });
    }
}

/// The parts between the commas that stand in no brace.
fn branches(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        match &*token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens_of;
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        names_of(&tokens_of(text)).named.iter().map(|named| named.path.join("::")).collect()
    }

    #[test]
    fn a_tree_of_imports_is_read_leaf_by_leaf() {
        assert_eq!(
            paths("use crate::{a::{self, B}, c::*, d as e};"),
            ["crate::a", "crate::a::B", "crate::c::*", "crate::d"]
        );
        let names = names_of(&tokens_of("pub(crate) use a::B as C;\nuse d::E;"));
        let imports: Vec<_> = names.named.iter().map(|named| named.import.clone().unwrap()).collect();
        assert_eq!(imports[0], Import { name: "C".into(), public: true });
        assert_eq!(imports[1], Import { name: "E".into(), public: false });
    }

    #[test]
    fn paths_written_out_are_found_once() {
        assert_eq!(paths("fn f(x: super::a::B<crate::c::D>) { x.g::<u8>(); }"), ["super::a::B", "crate::c::D"]);
        assert_eq!(paths("x::<T>::y()"), ["x"]);
    }

    #[test]
    fn modules_within_a_file_are_known() {
        let names = names_of(&tokens_of("mod inner { fn f() { super::g(); } } fn h() { super::k(); }"));
        assert_eq!(names.named[0].within, ["inner"]);
        assert!(names.named[1].within.is_empty());
        assert_eq!(names.defined, ["inner", "f", "h"]);
    }
}
