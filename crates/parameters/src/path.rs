//! `search_path`: in which schemas a name is looked for that says none.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of schemas begin with that have the temporary tables of one session each. Such a schema comes with
/// the first of them and goes with the session.
const TEMPORARY: &str = "pg_temp_";
/// What a session calls its own.
pub const OWN_TEMPORARY: &str = "pg_temp";

/// Whether a schema has the temporary tables of a session.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY)
}

/// The schema of the temporary tables of a session that begins: no other session of this process has it.
pub(crate) fn temporary_schema() -> String {
    // Relaxed: it only has to be another number each time.
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    format!("{TEMPORARY}{}", 1 + BEGUN.fetch_add(1, Ordering::Relaxed))
}

/// The schemas of `search_path`, as they are written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SearchPath(Vec<String>);

impl Default for SearchPath {
    fn default() -> Self {
        Self(vec![USER.to_owned(), "public".to_owned()])
    }
}

/// Stands for the schema that is called as the user.
const USER: &str = "$user";

impl SearchPath {
    /// Reads a list of identifiers; `None`: it is none.
    pub fn read(text: &str) -> Option<Self> {
        let mut rest = text.trim_start();
        let mut names = Vec::new();
        if rest.is_empty() {
            return Some(Self(names));
        }
        loop {
            let (name, after) = identifier(rest)?;
            names.push(name);
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more.trim_start(),
                None => return rest.is_empty().then_some(Self(names)),
            }
        }
    }

    /// What is listed, as it was written.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether it comes to one schema alone, for a user.
    pub fn is_only(&self, schema: &str, user: &str, exists: impl Fn(&str) -> bool) -> bool {
        let own = |name: &String| {
            if name == USER { user == schema || !exists(user) } else { name == schema || !exists(name) }
        };
        self.0.iter().all(own) && self.0.iter().any(|name| name == schema)
    }

    /// Its schemas for a user, those that there are, each once.
    pub fn schemas(&self, user: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let mut schemas: Vec<String> = Vec::with_capacity(self.0.len());
        for name in &self.0 {
            let name = if name == USER { user } else { name };
            if !schemas.iter().any(|known| known == name) && exists(name) {
                schemas.push(name.to_owned());
            }
        }
        schemas
    }
}

/// One identifier, quoted or folded, and what is behind it.
fn identifier(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
        let plain = !text[..end].contains('"');
        return (end > 0 && plain).then(|| (text[..end].to_lowercase(), &text[end..]));
    };
    let mut name = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' if letters.peek().is_some_and(|(_, next)| *next == '"') => {
                letters.next();
                name.push('"');
            }
            '"' => return Some((name, &quoted[at + 1..])),
            letter => name.push(letter),
        }
    }
    None
}

/// Names as a list that [`SearchPath::read`] reads: what `SET search_path TO a, "B"` says.
pub fn list(names: &[String]) -> String {
    let mut text = String::new();
    for name in names {
        let mut letters = name.chars();
        let is_plain = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = match is_plain {
            true => write!(text, "{separator}{name}"),
            false => write!(text, "{separator}\"{}\"", name.replace('"', "\"\"")),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_lists_of_identifiers() {
        let names = |text: &str| SearchPath::read(text).map(|SearchPath(names)| names);
        assert_eq!(names("\"$user\", public").unwrap(), ["$user", "public"]);
        assert_eq!(names(" a,\"B\"\"c\" , Dd").unwrap(), ["a", "B\"c", "dd"]);
        assert_eq!(names("").unwrap(), Vec::<String>::new());
        assert_eq!(names("\"\"").unwrap(), [""]);
        for wrong in ["a,,b", "a b", "a,", "\"a", ","] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
        let written = list(&["a".into(), "B".into(), "c d".into(), "$user".into(), String::new()]);
        assert_eq!(written, "a, \"B\", \"c d\", \"$user\", \"\"");
    }

    #[test]
    fn schemas_that_there_are_count() {
        let path = SearchPath::read("\"$user\", a, nosuch, a, public").unwrap();
        let there = |name: &str| ["a", "public", "joe"].contains(&name);
        assert_eq!(path.schemas("joe", there), ["joe", "a", "public"]);
        assert_eq!(path.schemas("ann", there), ["a", "public"]);
    }
}
