//! Objects as the SQL text that would make them.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::objects::{Constraint, Detail, IndexDetail, Objects, Relation};

/// Words that are no names unless quoted: all of PostgreSQL's but those it does not reserve.
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both \
    case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
    interval into is isnull join lateral leading least left like limit localtime localtimestamp national natural \
    nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay \
    placing position precision primary real references returning right row select session_user setof similar \
    smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union \
    unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement \
    xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

fn is_reserved(name: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| RESERVED.split(' ').collect());
    WORDS.contains(name)
}

/// A name as SQL text: quoted if it must be.
pub fn quote_ident(name: &str) -> String {
    let mut letters = name.chars();
    let plain = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if plain && !is_reserved(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A text as an SQL literal.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

impl Relation {
    /// The name behind its schema's.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", quote_ident(&self.schema), quote_ident(&self.name))
    }

    /// The name as short as it is understood.
    pub fn visible_name(&self) -> String {
        if self.is_visible() { quote_ident(&self.name) } else { self.qualified_name() }
    }

    /// Whether the name alone means this relation.
    pub fn is_visible(&self) -> bool {
        self.visible
    }

    /// The name of a column, by its position from 1.
    pub fn column_name(&self, position: i64) -> Option<&str> {
        let at = usize::try_from(position - 1).ok()?;
        Some(self.columns.get(at)?.name.as_str())
    }

    fn column_list(&self, positions: &[i64]) -> String {
        let names = positions.iter().filter_map(|position| self.column_name(*position)).map(quote_ident);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// The CREATE INDEX of an index, or of one of its columns only if that is stated.
pub fn index(objects: &Objects, relation: &Relation, column: i64, pretty: bool) -> Option<String> {
    let Detail::Index(index) = &relation.detail else { return None };
    let table = objects.relation(index.table)?;
    if column > 0 {
        let place = usize::try_from(column - 1).ok()?;
        let name = || relation.column_name(column).map(quote_ident).unwrap_or_default();
        return Some(match index.of.expression(place) {
            Some(key) if pretty => key.text.clone(),
            Some(key) => key.among_keys(),
            None => name(),
        });
    }
    let unique = if index.unique { "UNIQUE " } else { "" };
    Some(format!(
        "CREATE {unique}INDEX {} ON {} USING btree {}",
        quote_ident(&relation.name),
        if pretty { table.visible_name() } else { table.qualified_name() },
        index_columns(table, index)
    ))
}

fn index_columns(table: &Relation, index: &IndexDetail) -> String {
    let key = |(place, (column, descending)): (usize, &(i64, bool))| {
        let name = match index.of.expression(place) {
            Some(key) => key.among_keys(),
            None => quote_ident(table.column_name(*column)?),
        };
        Some(if *descending { format!("{name} DESC") } else { name })
    };
    let keys = index.of.keys.iter().enumerate().filter_map(key).collect::<Vec<_>>().join(", ");
    let include = match index.include.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", table.column_list(&index.include)),
    };
    let condition = index.of.predicate.as_ref().map(|predicate| format!(" WHERE {predicate}")).unwrap_or_default();
    format!("({keys}){include}{condition}")
}

/// What stands behind CONSTRAINT and the name.
pub fn constraint(objects: &Objects, constraint: &Constraint, pretty: bool) -> Option<String> {
    let table = objects.relation(constraint.table)?;
    Some(match (&constraint.foreign, &constraint.expression) {
        (Some(foreign), _) => {
            let target = objects.relation(foreign.table)?;
            format!(
                "FOREIGN KEY ({}) REFERENCES {}({}){}{}{}",
                table.column_list(&constraint.columns),
                target.visible_name(),
                target.column_list(&foreign.columns),
                action(" ON UPDATE ", foreign.on_update),
                action(" ON DELETE ", foreign.on_delete),
                foreign.deferral.words(),
            )
        }
        (None, Some(expression)) if pretty => format!("CHECK ({expression})"),
        (None, Some(expression)) => format!("CHECK (({expression}))"),
        (None, None) => {
            let word = if constraint.kind == 'p' { "PRIMARY KEY" } else { "UNIQUE" };
            let index = objects.relation(constraint.index).and_then(|relation| match &relation.detail {
                Detail::Index(index) => Some(index_columns(table, index)),
                _ => None,
            });
            format!("{word} {}", index.unwrap_or_else(|| format!("({})", table.column_list(&constraint.columns))))
        }
    })
}

fn action(when: &str, action: char) -> String {
    let name = match action {
        'r' => "RESTRICT",
        'c' => "CASCADE",
        'n' => "SET NULL",
        'd' => "SET DEFAULT",
        _ => return String::new(),
    };
    format!("{when}{name}")
}

/// What `information_schema` calls a referential action.
pub fn rule(action: char) -> &'static str {
    match action {
        'r' => "RESTRICT",
        'c' => "CASCADE",
        'n' => "SET NULL",
        'd' => "SET DEFAULT",
        _ => "NO ACTION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted_where_needed() {
        assert_eq!(quote_ident("book_title2"), "book_title2");
        assert_eq!(quote_ident("Book"), "\"Book\"");
        assert_eq!(quote_ident("order"), "\"order\"");
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
    }

    #[test]
    fn every_word_that_is_reserved_is_quoted_and_others_are_not() {
        for word in ["select", "user", "table", "between", "timestamp", "xmlelement", "current_date"] {
            assert_eq!(quote_ident(word), format!("\"{word}\""));
        }
        for word in ["name", "year", "value", "_a", "a1", "selects"] {
            assert_eq!(quote_ident(word), word);
        }
        for odd in ["1a", "a-b", "a b", "", "\u{e4}", "a$"] {
            assert_eq!(quote_ident(odd), format!("\"{odd}\""), "what must be quoted");
        }
    }

    #[test]
    fn actions_have_the_words_of_the_standard() {
        let words = ['a', 'r', 'c', 'n', 'd'].map(rule);
        assert_eq!(words, ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"]);
        assert_eq!(action(" ON DELETE ", 'a'), "", "which is what happens anyway");
        assert_eq!(action(" ON DELETE ", 'd'), " ON DELETE SET DEFAULT");
    }
}
