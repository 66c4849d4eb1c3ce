//! Arrays: literals in braces, ARRAY(query), vectors that count from zero, and fields of composite values.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, DataType, Expr, Function, FunctionArguments, OrderByKind, Query, Select,
    SelectItem, SetExpr, Subscript, UnaryOperator, Value, VisitorMut,
};

use super::syntax::{expression, flow, function_name, literal, number, query, string, system_name};
use saki_catalog::{Result, SqlError};
use saki_statement::{call, column_name, take};

/// Columns of type `int2vector` and `oidvector`.
const VECTORS: [&str; 6] = ["indkey", "indcollation", "indclass", "indoption", "proargtypes", "partattrs"];

pub fn is_vector(column: &str) -> bool {
    VECTORS.contains(&column)
}

pub struct Arrays;

impl VisitorMut for Arrays {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        select.selection.iter_mut().for_each(joinable);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        flow(rewrite(expr))
    }
}

/// Of a condition, `x = ANY (ARRAY(query))` is compared with the query's rows, which the planner can join.
fn joinable(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => joinable(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            joinable(left);
            joinable(right);
        }
        Expr::AnyOp { right, compare_op: BinaryOperator::Eq, .. } if array_of(right).is_some() => {
            if let Expr::Function(Function { args: FunctionArguments::Subquery(query), .. }) = take(right) {
                **right = Expr::Subquery(query);
            }
        }
        _ => {}
    }
}

/// The query of ARRAY(query).
fn array_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(function) if function_name(function).as_deref() == Some("array") => match &function.args {
            FunctionArguments::Subquery(query) => Some(query),
            _ => None,
        },
        _ => None,
    }
}

fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            if let Some(array) = array_literal(right) {
                **right = array;
            }
        }
        Expr::Cast { expr: inner, data_type: DataType::Array(_), .. } => {
            if let Some(array) = literal(inner).and_then(braces) {
                **inner = array;
            }
        }
        Expr::Cast { expr: inner, data_type, .. }
            if is_text(data_type) && column_name(inner).is_some_and(|column| is_vector(&column)) =>
        {
            *expr = call("pg_vector_text", vec![take(inner)]);
        }
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::NotEq), right }
            if literal(right).is_some_and(|text| text.starts_with('{') && text.ends_with('}')) =>
        {
            let equal = call("pg_list_equals", vec![take(left), take(right)]);
            *expr = match op {
                BinaryOperator::Eq => equal,
                _ => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(equal) },
            };
        }
        Expr::CompoundFieldAccess { root, access_chain } => fields(root, access_chain),
        Expr::Function(_) => {
            if let Some(query) = array_of(expr) {
                *expr = collected(query)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A literal `'{a,b}'` as the array that it is.
pub fn array_literal(expr: &Expr) -> Option<Expr> {
    literal(expr).and_then(braces)
}

/// The elements of such a literal, as texts without a type.
pub fn array_elements(expr: &Expr) -> Option<Vec<Expr>> {
    let inner = literal(expr)?.trim().strip_prefix('{')?.strip_suffix('}')?;
    Some(elements(inner).iter().map(element).collect())
}

fn element(item: &Option<String>) -> Expr {
    match item {
        Some(text) => string(text),
        None => Expr::value(Value::Null),
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_) => true,
        DataType::Custom(name, _) => system_name(name).is_some_and(|name| matches!(name.as_str(), "text" | "varchar")),
        _ => false,
    }
}

/// `{a,b}` as `ARRAY['a', 'b']`, of numbers if all are.
fn braces(text: &str) -> Option<Expr> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let items = elements(inner);
    let numbers: Option<Vec<i64>> = items.iter().map(|item| item.as_ref()?.parse().ok()).collect();
    let elem = match numbers {
        Some(numbers) => numbers.into_iter().map(number).collect(),
        None => items.iter().map(element).collect(),
    };
    Some(Expr::Array(Array { elem, named: true }))
}

/// The elements between braces, unquoted; `None`: NULL, in whatever letters, without quotes. Blanks around what is not
/// quoted are not part of it.
fn elements(text: &str) -> Vec<Option<String>> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut items = Vec::new();
    let mut item = Item::default();
    let (mut quoted, mut letters) = (false, text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => letters.next().into_iter().for_each(|letter| item.take(letter, true)),
            '"' => {
                quoted = !quoted;
                item.is_quoted = true;
            }
            ',' if !quoted => items.push(std::mem::take(&mut item).read()),
            letter => item.take(letter, quoted),
        }
    }
    items.push(item.read());
    items
}

/// An element while it is read.
#[derive(Default)]
struct Item {
    text: String,
    /// Bytes up to the last that is no blank, or is quoted.
    length: usize,
    is_quoted: bool,
}

impl Item {
    fn take(&mut self, letter: char, quoted: bool) {
        let is_blank = letter.is_ascii_whitespace() && !quoted;
        if is_blank && self.text.is_empty() {
            return;
        }
        self.is_quoted |= quoted;
        self.text.push(letter);
        if !is_blank {
            self.length = self.text.len();
        }
    }

    fn read(mut self) -> Option<String> {
        self.text.truncate(self.length);
        let is_null = !self.is_quoted && self.text.eq_ignore_ascii_case("null");
        (!is_null).then_some(self.text)
    }
}

/// Subscripts of vectors count from zero; a field of a composite value is named by a text.
fn fields(root: &Expr, access_chain: &mut [AccessExpr]) {
    let mut column = column_name(root);
    let composite = matches!(root, Expr::Nested(_));
    for access in access_chain {
        match access {
            AccessExpr::Dot(field) => {
                column = column_name(field);
                if composite && let Some(name) = &column {
                    *field = string(name);
                }
            }
            AccessExpr::Subscript(Subscript::Index { index }) if column.as_deref().is_some_and(is_vector) => {
                *index = Expr::BinaryOp {
                    left: Box::new(take(index)),
                    op: BinaryOperator::Plus,
                    right: Box::new(number(1)),
                };
            }
            AccessExpr::Subscript(_) => {}
        }
    }
}

/// `ARRAY(query)`: all its rows as one list, which is empty if there are none.
fn collected(source: &Query) -> Result<Expr> {
    let mut source = source.clone();
    let SetExpr::Select(select) = source.body.as_mut() else { return wrapped(&source) };
    let plain = select.distinct.is_none() && select.having.is_none() && source.limit_clause.is_none();
    let ungrouped =
        matches!(&select.group_by, datafusion::sql::sqlparser::ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = &mut select.projection[..]
    else {
        return wrapped(&source);
    };
    if !plain || !ungrouped || unnests(item) {
        return wrapped(&source);
    }
    let order = match source.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(keys)) => {
            let key = |key: &datafusion::sql::sqlparser::ast::OrderByExpr| {
                let by_position = matches!(&key.expr, Expr::Value(value) if matches!(value.value, Value::Number(..)));
                if by_position { format!("{item}{}", key.options) } else { key.to_string() }
            };
            format!(" ORDER BY {}", keys.iter().map(key).collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    };
    let gathered = expression(&format!("array_agg({item}{order})"))?;
    select.projection = vec![SelectItem::UnnamedExpr(gathered)];
    Ok(call("pg_or_empty", vec![Expr::Subquery(Box::new(source))]))
}

fn unnests(item: &Expr) -> bool {
    matches!(item, Expr::Function(function) if function_name(function).as_deref() == Some("unnest"))
}

fn wrapped(source: &Query) -> Result<Expr> {
    let gathered = query(&format!("SELECT array_agg(item) FROM ({source}) AS gathered(item)"))?;
    Ok(call("pg_or_empty", vec![Expr::Subquery(Box::new(gathered))]))
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::{Arrays, elements};
    use crate::fixture::{check, library};

    #[test]
    fn elements_are_read_as_postgresql_reads_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            (r#""a,b",c"#, &["a,b", "c"]),
            (r#""a\"b""#, &[r#"a"b"#]),
            (r"a\,b", &["a,b"]),
            (r#""""#, &[""]),
            (r#" a , "b c" ,d e "#, &["a", "b c", "d e"]),
            (r#""NULL","#, &["NULL", ""]),
        ] {
            let expected: Vec<_> = expected.iter().map(|item| Some((*item).to_owned())).collect();
            assert_eq!(elements(text), expected, "{text}");
        }
        assert_eq!(elements(" null ,NULL"), [None, None]);
    }

    #[test]
    fn literals_in_braces_become_arrays() {
        check(
            &[
                ("SELECT a = ANY('{r,v}')", "SELECT a = ANY(ARRAY['r', 'v'])"),
                ("SELECT a <> ALL('{1,2}')", "SELECT a <> ALL(ARRAY[1, 2])"),
                ("SELECT '{1,-2}'::int[]", "SELECT ARRAY[1, -2]::INT[]"),
                ("SELECT '{a,NULL}'::text[]", "SELECT ARRAY['a', NULL]::TEXT[]"),
                ("SELECT '{}'::int[]", "SELECT ARRAY[]::INT[]"),
                ("SELECT a = '{1}'", "SELECT pg_list_equals(a, '{1}')"),
                ("SELECT a <> '{}'", "SELECT NOT pg_list_equals(a, '{}')"),
                ("SELECT a = 'b'", "SELECT a = 'b'"),
            ],
            |sql| passed(sql, &mut Arrays),
        );
    }

    #[test]
    fn vectors_count_from_zero() {
        check(
            &[
                ("SELECT indkey[0], i.indkey[1]", "SELECT indkey[0 + 1], i.indkey[1 + 1]"),
                ("SELECT conkey[1]", "SELECT conkey[1]"),
                ("SELECT indkey::text", "SELECT pg_vector_text(indkey)"),
                ("SELECT conkey::text", "SELECT conkey::TEXT"),
            ],
            |sql| passed(sql, &mut Arrays),
        );
        library().check(&[(
            "select i.indkey[0], i.indkey[1], i.indkey::text from pg_index i where indexrelid = \
             'book_title_idx'::regclass",
            "3|4|3 4 13",
        )]);
    }

    #[test]
    fn queries_become_arrays() {
        library().check(&[
            ("select array_to_string(array(select relname from pg_class where relname = 'book'), ',')", "book"),
            (
                "select array_to_string(array(select attname from pg_attribute where attrelid = \
                 'author'::regclass and attnum > 0 order by attnum desc), ',')",
                "born,name,id",
            ),
            (
                "select array_to_string(array(select distinct relkind::text from pg_class where relname in \
                 ('book', 'author') limit 3), ',')",
                "r",
            ),
        ]);
    }
}
