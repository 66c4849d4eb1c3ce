//! Texts that come again are not read again.
//!
//! Programs send the same few texts over and over. Reading one takes longer than all else that comes before a kept
//! plan runs, and what it says depends on nothing but its letters.
//!
//! # Invariants
//! - What is kept is about rows: no text that may hold a password.
//! - A text is kept when it has come for the second time, so that those that never do cost a look.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;

use super::parsed::{Parsed, parse};
use saki_catalog::Result;

/// Bytes of a text that is too long to be kept.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Bytes of all texts that are kept; what was read of them takes some hundred times as many.
const BYTES_MAX: usize = 64 << 10;
/// Hashes of texts that have come once.
const SEEN: usize = 1 << 10;

/// The texts of a database's sessions.
pub struct TextCache {
    hasher: RandomState,
    inner: Mutex<Inner>,
}

struct Inner {
    kept: HashMap<Box<str>, Kept>,
    /// Bytes of their texts.
    bytes: usize,
    /// Each in its place by its last bits, until another takes it.
    seen: Box<[u64; SEEN]>,
    /// Counts searches.
    clock: u64,
}

struct Kept {
    statements: Vec<Parsed>,
    used: u64,
}

impl Default for TextCache {
    fn default() -> Self {
        let inner = Inner { kept: HashMap::new(), bytes: 0, seen: Box::new([0; SEEN]), clock: 0 };
        Self { hasher: RandomState::new(), inner: Mutex::new(inner) }
    }
}

impl TextCache {
    /// Cuts a text into statements, as [`parse`] does.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        if sql.len() > TEXT_BYTES_MAX {
            return parse(sql);
        }
        if let Some(known) = self.inner.lock().find(sql) {
            return Ok(known);
        }
        let statements = parse(sql)?;
        if statements.iter().all(is_about_rows) {
            let hash = self.hasher.hash_one(sql);
            let mut inner = self.inner.lock();
            if inner.has_come(hash) {
                inner.keep(sql, statements.clone());
            }
        }
        Ok(statements)
    }
}

impl Inner {
    fn find(&mut self, sql: &str) -> Option<Vec<Parsed>> {
        self.clock += 1;
        let kept = self.kept.get_mut(sql)?;
        kept.used = self.clock;
        Some(kept.statements.clone())
    }

    /// Whether a text has come before, as far as is remembered; it has now.
    fn has_come(&mut self, hash: u64) -> bool {
        std::mem::replace(&mut self.seen[hash as usize % SEEN], hash) == hash
    }

    fn keep(&mut self, sql: &str, statements: Vec<Parsed>) {
        while self.bytes + sql.len() > BYTES_MAX
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(text, _)| text.clone())
        {
            self.kept.remove(&oldest);
            self.bytes -= oldest.len();
        }
        if self.kept.insert(sql.into(), Kept { statements, used: self.clock }).is_none() {
            self.bytes += sql.len();
        }
    }
}

fn is_about_rows(Parsed(statement, _): &Parsed) -> bool {
    use ast::Statement as Sql;
    let Statement::Statement(statement) = statement else { return false };
    matches!(**statement, Sql::Query(_) | Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cache: &TextCache) -> Vec<String> {
        let mut texts: Vec<String> = cache.inner.lock().kept.keys().map(|text| text.to_string()).collect();
        texts.sort_unstable();
        texts
    }

    fn said(cache: &TextCache, sql: &str) -> String {
        let statements = cache.parse(sql).unwrap();
        statements.iter().map(|Parsed(statement, _)| format!("{statement};")).collect()
    }

    #[test]
    fn a_text_that_comes_again_says_the_same() {
        let cache = TextCache::default();
        for _ in 0..4 {
            assert_eq!(said(&cache, "select 1; SELECT a FROM t"), "SELECT 1;SELECT a FROM t;");
            assert_eq!(said(&cache, "select 'A'"), "SELECT 'A';");
            assert_eq!(said(&cache, "select 'a'"), "SELECT 'a';", "letters of constants count");
            assert!(cache.parse("SELECT (1").is_err());
        }
        assert_eq!(kept(&cache), ["select 'A'", "select 'a'", "select 1; SELECT a FROM t"]);
    }

    #[test]
    fn nothing_is_kept_of_texts_that_come_once_or_are_not_about_rows() {
        let cache = TextCache::default();
        cache.parse("SELECT 1").unwrap();
        for _ in 0..3 {
            cache.parse("CREATE ROLE r PASSWORD 'secret'").unwrap();
            cache.parse("SELECT 1; SET work_mem = '4MB'").unwrap();
            cache.parse(&format!("SELECT '{}'", "x".repeat(TEXT_BYTES_MAX))).unwrap();
        }
        assert_eq!(kept(&cache), [""; 0]);
    }

    #[test]
    fn the_texts_that_were_asked_for_last_stay() {
        let cache = TextCache::default();
        let text = |number: usize| format!("SELECT {number} /* {} */", "x".repeat(1000));
        for number in 0..2 * BYTES_MAX / 1000 {
            cache.parse(&text(number)).unwrap();
            cache.parse(&text(number)).unwrap();
            cache.parse(&text(0)).unwrap();
        }
        let inner = cache.inner.lock();
        assert_eq!(inner.bytes, inner.kept.keys().map(|text| text.len()).sum::<usize>());
        assert!(inner.bytes <= BYTES_MAX && inner.bytes > BYTES_MAX - 1100, "{} bytes", inner.bytes);
        assert!(inner.kept.contains_key(&*text(0)));
    }
}
