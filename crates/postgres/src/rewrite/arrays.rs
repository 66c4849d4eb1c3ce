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

/// The elements of such a literal of one dimension, as texts without a type.
pub fn array_elements(expr: &Expr) -> Option<Vec<Expr>> {
    let elements = Braces::read(literal(expr)?)?;
    let texts = elements.iter().map(|item| match item {
        Element::Item(item) => Some(element(item)),
        Element::List(_) => None,
    });
    texts.collect()
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

/// `{a,b}` as `ARRAY['a', 'b']`, of numbers if all are. What is no array is told where it is read as one.
fn braces(text: &str) -> Option<Expr> {
    let elements = Braces::read(text)?;
    let numbers = are_numbers(&elements);
    Some(written(&elements, numbers))
}

fn are_numbers(elements: &[Element]) -> bool {
    elements.iter().all(|element| match element {
        Element::Item(item) => item.as_ref().is_some_and(|text| text.parse::<i64>().is_ok()),
        Element::List(elements) => are_numbers(elements),
    })
}

fn written(elements: &[Element], numbers: bool) -> Expr {
    let one = |of: &Element| match of {
        Element::Item(Some(text)) if numbers => text.parse().map_or_else(|_| string(text), number),
        Element::Item(item) => element(item),
        Element::List(elements) => written(elements, numbers),
    };
    Expr::Array(Array { elem: elements.iter().map(one).collect(), named: true })
}

/// What stands between commas: a text, `None` for NULL, or what braces hold.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Element {
    Item(Option<String>),
    List(Vec<Self>),
}

/// Dimensions of an array at most; PostgreSQL's bound.
const DIMENSIONS_MAX: usize = 6;

/// A literal while it is read.
struct Braces<'t> {
    rest: &'t str,
}

impl<'t> Braces<'t> {
    /// The elements of a literal; `None`: it is none, or its lists are not as long as each other.
    fn read(text: &'t str) -> Option<Vec<Element>> {
        let mut braces = Self { rest: text.trim().strip_prefix('{')? };
        let elements = braces.list(1)?;
        (braces.rest.is_empty() && is_even(&elements)).then_some(elements)
    }

    /// Up to the brace that closes the list, which is taken.
    fn list(&mut self, depth: usize) -> Option<Vec<Element>> {
        let mut elements = Vec::new();
        self.pass_blanks();
        if depth == 1 && self.take('}') {
            return Some(elements);
        }
        loop {
            self.pass_blanks();
            elements.push(match self.take('{') {
                true if depth == DIMENSIONS_MAX => return None,
                true => Element::List(self.list(depth + 1)?),
                false => Element::Item(self.item()?),
            });
            self.pass_blanks();
            if self.take('}') {
                return Some(elements);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    /// An item, unquoted; NULL in whatever letters, without quotes. Blanks around what is not quoted are no part of it.
    fn item(&mut self) -> Option<Option<String>> {
        let (mut text, mut length) = (String::new(), 0);
        if self.take('"') {
            loop {
                match self.next()? {
                    '"' => return Some(Some(text)),
                    '\\' => text.push(self.next()?),
                    letter => text.push(letter),
                }
            }
        }
        let mut is_quoted = false;
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                ',' | '}' => break,
                '{' | '"' => return None,
                '\\' => {
                    self.next();
                    text.push(self.next()?);
                    (length, is_quoted) = (text.len(), true);
                    continue;
                }
                _ => text.push(letter),
            }
            self.next();
            if !letter.is_ascii_whitespace() {
                length = text.len();
            }
        }
        text.truncate(length);
        if text.is_empty() {
            return None;
        }
        let is_null = !is_quoted && text.eq_ignore_ascii_case("null");
        Some((!is_null).then_some(text))
    }

    fn pass_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace());
    }

    fn take(&mut self, letter: char) -> bool {
        let after = self.rest.strip_prefix(letter);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }
}

/// Whether all elements are items, or lists of one length that are even themselves.
fn is_even(elements: &[Element]) -> bool {
    let lists: Vec<&Vec<Element>> = elements
        .iter()
        .filter_map(|element| match element {
            Element::List(elements) => Some(elements),
            Element::Item(_) => None,
        })
        .collect();
    let shape = |elements: &Vec<Element>| {
        let mut shape = Vec::new();
        let mut within = Some(elements);
        while let Some(elements) = within {
            shape.push(elements.len());
            within = match elements.first() {
                Some(Element::List(elements)) => Some(elements),
                _ => None,
            };
        }
        shape
    };
    let are_alike = lists.windows(2).all(|pair| shape(pair[0]) == shape(pair[1]));
    (lists.is_empty() || lists.len() == elements.len()) && are_alike && lists.iter().all(|list| is_even(list))
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
    use super::{Arrays, Braces, Element};
    use crate::fixture::{check, library};

    #[test]
    fn elements_are_read_as_postgresql_reads_them() {
        let texts = |text: &str| match Braces::read(text) {
            None => vec!["malformed".to_owned()],
            Some(elements) => elements
                .into_iter()
                .map(|element| match element {
                    Element::Item(item) => item.unwrap_or_else(|| "(null)".to_owned()),
                    Element::List(_) => "(list)".to_owned(),
                })
                .collect(),
        };
        for (text, expected) in [
            ("{}", &[][..]),
            ("{ }", &[]),
            ("{a}", &["a"]),
            (" {a,b} ", &["a", "b"]),
            (r#"{"a,b",c}"#, &["a,b", "c"]),
            (r#"{"a\"b"}"#, &[r#"a"b"#]),
            (r"{a\,b}", &["a,b"]),
            (r#"{""}"#, &[""]),
            (r#"{ a , "b c" ,d e }"#, &["a", "b c", "d e"]),
            (r#"{"NULL", null ,NULL}"#, &["NULL", "(null)", "(null)"]),
            ("{{1,2},{3,4}}", &["(list)", "(list)"]),
            ("{a,}", &["malformed"]),
            ("{{1,{2}},{2,3}}", &["malformed"]),
            ("{{1},{2,3}}", &["malformed"]),
            ("{{},{}}", &["malformed"]),
            (r"{{1,2},\{2,3}}", &["malformed"]),
            (r#"{{"1 2" x},{3}}"#, &["malformed"]),
            ("{}}", &["malformed"]),
            ("{a", &["malformed"]),
            ("a", &["malformed"]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
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
                ("SELECT '{{a,b},{c,NULL}}'::text[]", "SELECT ARRAY[ARRAY['a', 'b'], ARRAY['c', NULL]]::TEXT[]"),
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
