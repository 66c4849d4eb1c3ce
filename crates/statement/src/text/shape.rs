//! A text without its literals. Programs that send values within their statements send few texts but for these: what is
//! known of a shape holds for all of them.

use std::fmt::Write;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, UnaryOperator, Value, ValueWithSpan, Visitor,
    VisitorMut,
};

use super::walk::{walk, walk_mut};

/// Bytes of a text that is looked at.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Literals of one.
const LITERALS_MAX: usize = 64;

/// What a literal is, and so its type where nothing else says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A whole number that fits into an `integer`.
    Integer,
    /// One that fits into a `bigint`.
    Bigint,
    Text,
}

/// A text whose literals are parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// With `$1`, `$2`, … in their places.
    pub text: String,
    pub kinds: Vec<Kind>,
    /// What they say, numbers with their signs.
    pub literals: Vec<String>,
}

impl Shape {
    /// Of one statement; `None` if there is more in it than words, numbers, texts in quotes and operators, or no
    /// literal.
    pub fn of(sql: &str) -> Option<Self> {
        Self::lifting(sql, |_, _| true)
    }

    /// The same where only literals behind the first WHERE are parameters: functions in front of it may depend on
    /// theirs.
    pub fn of_condition(sql: &str) -> Option<Self> {
        let is_where = |word: &[u8]| word.eq_ignore_ascii_case(b"where");
        Self::lifting(sql, |before, _| before.as_bytes().windows(b"where".len()).any(is_where))
    }

    /// The same where only whole numbers behind `=` are parameters: what one plan serves whatever they are.
    pub fn of_keys(sql: &str) -> Option<Self> {
        let is_key = |before: &str, kind| {
            let before = before.trim_end();
            let compares = before.strip_suffix('=').is_some_and(|before| !before.ends_with(['<', '>', '!']));
            kind != Kind::Text && compares
        };
        Self::lifting(sql, is_key)
    }

    /// `is_lifted`: whether a literal becomes a parameter, by the text before it.
    fn lifting(sql: &str, is_lifted: impl Fn(&str, Kind) -> bool) -> Option<Self> {
        if sql.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut shape = Self { text: String::with_capacity(sql.len() + 8), kinds: Vec::new(), literals: Vec::new() };
        let mut rest = sql;
        // The last byte that is no blank.
        let mut before = b' ';
        while let Some(first) = rest.bytes().next() {
            let length = match first {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                    let length = count(rest, is_word);
                    // E'…', B'…': texts with another meaning.
                    if rest[length..].starts_with('\'') {
                        return None;
                    }
                    length
                }
                b'\'' => {
                    let (text, length) = quoted(rest)?;
                    if is_lifted(&shape.text, Kind::Text) {
                        shape.lift(text, Kind::Text)?;
                        (rest, before) = (&rest[length..], b'\'');
                        continue;
                    }
                    length
                }
                b'"' => rest[1..].find('"')? + 2,
                b'0'..=b'9' => {
                    let length = number(rest);
                    let lifted = kind(&rest[..length]).filter(|kind| before != b'.' && is_lifted(&shape.text, *kind));
                    if let Some(kind) = lifted {
                        let literal = match shape.text.ends_with('-') && is_sign(shape.text.trim_end_matches('-')) {
                            true => {
                                shape.text.pop();
                                format!("-{}", &rest[..length])
                            }
                            false => rest[..length].to_owned(),
                        };
                        shape.lift(literal, kind)?;
                        (rest, before) = (&rest[length..], b'0');
                        continue;
                    }
                    length
                }
                b'-' if rest.starts_with("--") => return None,
                b'/' if rest.starts_with("/*") => return None,
                b'$' | b'\\' | 0..=8 => return None,
                // One statement.
                b';' => match rest[1..].trim().is_empty() {
                    true => break,
                    false => return None,
                },
                _ => 1,
            };
            let (part, after) = rest.split_at(length);
            shape.text.push_str(part);
            if !first.is_ascii_whitespace() {
                before = part.bytes().last().unwrap_or(first);
            }
            rest = after;
        }
        (!shape.literals.is_empty()).then_some(shape)
    }

    fn lift(&mut self, literal: String, kind: Kind) -> Option<()> {
        self.literals.push(literal);
        self.kinds.push(kind);
        let _ = write!(self.text, "${}", self.literals.len());
        (self.literals.len() <= LITERALS_MAX).then_some(())
    }

    /// Whether a statement, which was read from this shape's text, says with these literals what `whole` says: they are
    /// in places where a parameter means the same. A number as an item of ORDER BY or GROUP BY is none, but a place.
    pub fn says(&self, shaped: &Statement, whole: &Statement) -> bool {
        let (Statement::Statement(shaped), Statement::Statement(whole)) = (shaped, whole) else { return false };
        if walk(shaped.as_ref(), &mut Places).is_break() {
            return false;
        }
        let mut filled = shaped.as_ref().clone();
        let _ = walk_mut(&mut filled, &mut Fill { literals: &self.literals, kinds: &self.kinds });
        filled == **whole
    }
}

/// Finds parameters that stand where a number would be a place.
struct Places;

impl Visitor for Places {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let order = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(keys)) => &keys[..],
            _ => &[],
        };
        if order.iter().any(|key| is_parameter(&key.expr)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Interval(interval) if is_parameter(&interval.value) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let groups = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => &keys[..],
            GroupByExpr::All(_) => &[],
        };
        let distinct = match &select.distinct {
            Some(Distinct::On(keys)) => &keys[..],
            _ => &[],
        };
        match groups.iter().chain(distinct).any(is_parameter) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

/// Puts literals in the places of parameters.
struct Fill<'l> {
    literals: &'l [String],
    kinds: &'l [Kind],
}

impl VisitorMut for Fill<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr
            && let Some(at) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            && let Some((literal, kind)) = self.literals.get(at - 1).zip(self.kinds.get(at - 1))
        {
            let number = |digits: &str| Expr::value(Value::Number(digits.to_owned(), false));
            *expr = match (kind, literal.strip_prefix('-')) {
                (Kind::Text, _) => Expr::value(Value::SingleQuotedString(literal.clone())),
                (_, Some(digits)) => ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(digits)) },
                (_, None) => number(literal),
            };
        }
        ControlFlow::Continue(())
    }
}

/// What a text in quotes says, and how many bytes it takes.
fn quoted(rest: &str) -> Option<(String, usize)> {
    let (mut text, mut at) = (String::new(), 1);
    loop {
        let end = rest[at..].find('\'')?;
        text.push_str(&rest[at..at + end]);
        at += end + 1;
        if !rest[at..].starts_with('\'') {
            return Some((text, at));
        }
        text.push('\'');
        at += 1;
    }
}

/// The bytes of what begins with a digit.
fn number(rest: &str) -> usize {
    count(rest, |byte| is_word(byte) || byte == b'.')
}

fn kind(digits: &str) -> Option<Kind> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match digits.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => Some(Kind::Integer),
        Ok(_) => Some(Kind::Bigint),
        Err(_) => None,
    }
}

/// Whether a minus behind a text is a sign, not an operator.
fn is_sign(before: &str) -> bool {
    before.trim_end().ends_with(['=', '<', '>', '(', ',', '+', '*', '/'])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn count(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn shown(sql: &str) -> String {
        match Shape::of(sql) {
            None => "none".to_owned(),
            Some(Shape { text, kinds, literals }) => {
                let kinds: String =
                    kinds.iter().map(|kind| format!("{kind:?}").chars().next().unwrap_or('?')).collect();
                format!("{text} [{kinds}] {}", literals.join("|"))
            }
        }
    }

    #[test]
    fn literals_are_taken_out() {
        for (sql, expected) in [
            ("SELECT a FROM t WHERE b = 5;", "SELECT a FROM t WHERE b = $1 [I] 5"),
            ("UPDATE t SET a = a + -5 WHERE b=-7", "UPDATE t SET a = a + $1 WHERE b=$2 [II] -5|-7"),
            ("SELECT a-5, a - 5, a -5 FROM t", "SELECT a-$1, a - $2, a -$3 FROM t [III] 5|5|5"),
            ("SELECT t1.a1 FROM t1 WHERE x2 = 3000000000", "SELECT t1.a1 FROM t1 WHERE x2 = $1 [B] 3000000000"),
            ("INSERT INTO t VALUES ('it''s', '')", "INSERT INTO t VALUES ($1, $2) [TT] it's|"),
            ("SELECT 'é' || \"a b\"", "SELECT $1 || \"a b\" [T] é"),
            ("SELECT 1.5, 1e5, 0x1F, .5", "none"),
            ("SELECT 99999999999999999999, c = 1", "SELECT 99999999999999999999, c = $1 [I] 1"),
            ("SELECT E'a\\n'", "none"),
            ("SELECT $1, 5", "none"),
            ("SELECT 1 -- one", "none"),
            ("SELECT 1 /* one */", "none"),
            ("SELECT 1; SELECT 2", "none"),
            ("SELECT 'a", "none"),
            ("SELECT a FROM t", "none"),
        ] {
            assert_eq!(shown(sql), expected, "{sql}");
        }
    }

    #[test]
    fn conditions_begin_with_where() {
        let shown = |sql: &str| Shape::of_condition(sql).map(|shape| (shape.text, shape.literals.join("|")));
        let shape = |text: &str, literals: &str| Some((text.to_owned(), literals.to_owned()));
        assert_eq!(
            shown("SELECT round(n, 2), 'a''b' FROM t WHERE k > 5 AND s = 'x' LIMIT 3"),
            shape("SELECT round(n, 2), 'a''b' FROM t WHERE k > $1 AND s = $2 LIMIT $3", "5|x|3")
        );
        assert_eq!(shown("SELECT round(n, 2) FROM t"), None);
    }

    #[test]
    fn keys_are_what_columns_are_compared_with() {
        let shown = |sql: &str| Shape::of_keys(sql).map(|shape| (shape.text, shape.literals.join("|")));
        let shape = |text: &str, literals: &str| Some((text.to_owned(), literals.to_owned()));
        assert_eq!(
            shown("SELECT round(n, 2), 'a''b' FROM t WHERE k = 5 AND m >= 6 AND s = 'x' AND o =7 LIMIT 3"),
            shape("SELECT round(n, 2), 'a''b' FROM t WHERE k = $1 AND m >= 6 AND s = 'x' AND o =$2 LIMIT 3", "5|7")
        );
        assert_eq!(shown("SELECT 1 WHERE a <= 5"), None);
        assert_eq!(shown("SELECT 1 WHERE a = -5"), None);
    }

    #[test]
    fn a_shape_says_the_same_or_is_not_used() {
        let says = |sql: &str| {
            let shape = Shape::of(sql).unwrap();
            let (Ok(shaped), Ok(whole)) = (parse(&shape.text), parse(sql)) else { return false };
            shape.says(&shaped[0], &whole[0])
        };
        for sql in [
            "SELECT a FROM t WHERE b = 5 AND c IN (1, 2) LIMIT 3",
            "UPDATE t SET a = a + -5, c = 'x' WHERE b = -7",
            "INSERT INTO t VALUES (1, 'a')",
            "SELECT a FROM t WHERE b = '2024-01-01'::date",
            "SELECT a + 1 FROM t ORDER BY a + 1",
        ] {
            assert!(says(sql), "{sql}");
        }
        for sql in [
            "SELECT a FROM t ORDER BY 1",
            "SELECT a, count(*) FROM t GROUP BY 1",
            "SELECT DISTINCT ON (1) a FROM t",
            "SELECT DATE '2024-01-01' FROM t",
            "SELECT INTERVAL '1 day'",
            "SELECT a FROM t WHERE b = -5::int",
            "SELECT a::numeric(10, 2) FROM t",
            "SELECT 'a' 'b'",
            "CREATE TABLE t (a varchar(10))",
        ] {
            assert!(!says(sql), "{sql}");
        }
    }
}
