//! Objects as the SQL text that would make them.

use super::objects::{Constraint, Detail, IndexDetail, Objects, Relation};

/// Words that are no names unless quoted.
const RESERVED: [&str; 36] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "case",
    "cast",
    "check",
    "column",
    "constraint",
    "create",
    "default",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "into",
    "limit",
    "not",
    "null",
    "order",
    "primary",
    "select",
    "table",
    "user",
];

/// A name as SQL text: quoted if it must be.
pub fn quote_ident(name: &str) -> String {
    let mut letters = name.chars();
    let plain = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
        && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if plain && !RESERVED.contains(&name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
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
        self.schema == "public" || self.schema == "pg_catalog"
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
        return Some(quote_ident(relation.column_name(column)?));
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
    let key = |(column, descending): &(i64, bool)| {
        let name = quote_ident(table.column_name(*column)?);
        Some(if *descending { format!("{name} DESC") } else { name })
    };
    let keys = index.keys.iter().filter_map(key).collect::<Vec<_>>().join(", ");
    if index.include.is_empty() {
        return format!("({keys})");
    }
    format!("({keys}) INCLUDE ({})", table.column_list(&index.include))
}

/// What stands behind CONSTRAINT and the name.
pub fn constraint(objects: &Objects, constraint: &Constraint, pretty: bool) -> Option<String> {
    let table = objects.relation(constraint.table)?;
    Some(match (&constraint.foreign, &constraint.expression) {
        (Some(foreign), _) => {
            let target = objects.relation(foreign.table)?;
            format!(
                "FOREIGN KEY ({}) REFERENCES {}({}){}{}",
                table.column_list(&constraint.columns),
                if pretty { target.visible_name() } else { target.qualified_name() },
                target.column_list(&foreign.columns),
                action(" ON UPDATE ", foreign.on_update),
                action(" ON DELETE ", foreign.on_delete),
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
}
