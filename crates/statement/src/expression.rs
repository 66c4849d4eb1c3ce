//! Small parts of syntax trees, made and looked at.

use std::ops::ControlFlow;

use crate::walk::{walk_expressions, walk_expressions_mut};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectNamePart, Value};
use saki_catalog::Table;

use super::function::function;
use super::name_of;

/// Takes an expression out of its place.
pub fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// A call of a function.
pub fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(function(Ident::new(name), arguments))
}

/// The name of the column that an expression is, without its table's.
pub fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(name_of),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// A name as statements write it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Positions of a table's columns that an expression names, each once.
pub fn columns_named(table: &Table, expression: &Expr) -> Vec<usize> {
    let mut named = Vec::new();
    let _ = walk_expressions(expression, |node: &Expr| {
        let ident = match node {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(position) = ident.and_then(|ident| table.column(&name_of(ident)))
            && !named.contains(&position)
        {
            named.push(position);
        }
        ControlFlow::<()>::Continue(())
    });
    named
}

/// An expression over a table's rows as the catalog keeps it: with names in the letters that they mean, columns without
/// their table's name, and without parentheses around all of it.
pub fn as_kept(expression: &Expr, table: &Table) -> Expr {
    let mut expression = expression;
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    let mut kept = expression.clone();
    let _ = walk_expressions_mut(&mut kept, |node| {
        match node {
            Expr::Identifier(ident) => in_small_letters(ident),
            Expr::CompoundIdentifier(parts) => {
                if let [relation, column] = &mut parts[..]
                    && name_of(relation) == table.bare_name()
                {
                    in_small_letters(column);
                    *node = Expr::Identifier(column.clone());
                }
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(ident) = part {
                        in_small_letters(ident);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    kept
}

fn in_small_letters(ident: &mut Ident) {
    if ident.quote_style.is_none() {
        ident.value = ident.value.to_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::check;
    use crate::parse_expression;

    #[test]
    fn a_column_is_named_with_and_without_its_table() {
        let named = |text: &str| column_name(&parse_expression(text).unwrap()).unwrap_or_default();
        check(
            &[
                ("a", "a"),
                ("A", "a"),
                ("\"A\"", "A"),
                ("t.a", "a"),
                ("s.t.\"B c\"", "B c"),
                ("((t.a))", "a"),
                ("a + 1", ""),
                ("a::int", ""),
                ("f(a)", ""),
            ],
            named,
        );
    }

    #[test]
    fn a_quoted_name_is_read_back_as_itself() {
        for name in ["a", "A b", "a\"b", "\"", "日本", ""] {
            let text = quoted(name);
            assert!(text.starts_with('"') && text.ends_with('"'), "{text}");
            if !name.is_empty() {
                assert_eq!(column_name(&parse_expression(&text).unwrap()).as_deref(), Some(name));
            }
        }
    }

    #[test]
    fn a_call_and_what_was_taken() {
        let mut expr = parse_expression("a + 1").unwrap();
        let taken = take(&mut expr);
        assert_eq!((taken.to_string().as_str(), expr.to_string().as_str()), ("a + 1", "NULL"));
        assert_eq!(call("f", vec![taken, expr]).to_string(), "f(a + 1, NULL)");
        assert_eq!(call("f", Vec::new()).to_string(), "f()");
    }
}
