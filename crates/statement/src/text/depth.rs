//! How deep a statement is nested: refused before work recurses deeper than its stack.
//!
//! The tokens bound what is parsed: each that may join or wrap an expression counts, so that chains such as
//! `1 + 1 + 1`, which the parser reads in a loop, are known too. Of statements that could be deep by their tokens the
//! tree is measured.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::walk::walk;
use saki_catalog::{ErrorKind, Result, SqlError};

/// Brackets within brackets at most: as deep as the parser goes. It takes very long to find out that it will not.
const BRACKETS_MAX: usize = 50;
/// Brackets that need no closer look: too few for [`READINGS_MAX`].
const BRACKETS_UNSEEN: usize = 16;
/// Readings of a query at most. Those that a text needs double, or more, with every query around that is in brackets
/// of its own.
const READINGS_MAX: usize = 1 << 9;
/// Dimensions of an array's type at most.
const DIMENSIONS_MAX: usize = 16;
/// Tokens along one way down at most: what is parsed and let go of recurses once for some of them.
const LINKS_MAX: usize = 100_000;
/// Expressions and queries within each other at most: what plans and runs them recurses once for each, with frames
/// that are larger by far.
const DEPTH_MAX: usize = 5_000;

/// How deep the tree of these tokens is at most.
///
/// # Errors
/// 54001 for what is nested too deep to be parsed.
pub fn links_of(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut steps = tokens.iter().map(|token| match token.token {
        Token::LParen | Token::LBracket => 1,
        Token::RParen | Token::RBracket => -1,
        _ => 0,
    });
    let brackets = deepest(&mut steps);
    if brackets > BRACKETS_MAX {
        return Err(too_deep(format!("brackets are nested more than {BRACKETS_MAX} deep")));
    }
    if brackets > BRACKETS_UNSEEN && readings(tokens) > READINGS_MAX {
        return Err(too_deep("queries in brackets of their own are nested too deep"));
    }
    if dimensions(tokens) > DIMENSIONS_MAX {
        return Err(too_deep(format!("a type has more than {DIMENSIONS_MAX} dimensions")));
    }
    match links(tokens) {
        links if links > LINKS_MAX => Err(too_deep(format!("more than {LINKS_MAX} words and operators in one chain"))),
        links => Ok(links),
    }
}

/// Refuses a statement that is nested too deep to be planned.
///
/// # Errors
/// 54001.
pub fn refuse(statement: &Statement) -> Result<()> {
    let Statement::Statement(statement) = statement else { return Ok(()) };
    match walk(statement, &mut Depth(0)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(too_deep(format!("expressions and queries are nested more than {DEPTH_MAX} deep")))
        }
    }
}

fn too_deep(message: impl Into<String>) -> SqlError {
    SqlError::new(ErrorKind::Syntax, message).code("54001").hint("WITH gives parts of a query names, IN takes lists")
}

/// How deep steps in and out lead.
fn deepest(steps: &mut dyn Iterator<Item = isize>) -> usize {
    let (mut depth, mut deepest) = (0_isize, 0);
    for step in steps {
        depth = (depth + step).max(0);
        deepest = deepest.max(depth);
    }
    deepest as usize
}

/// How often the parser reads the innermost query at most: one in `n` brackets may be a table that is joined within
/// each of them, which it finds out by trying.
fn readings(tokens: &[TokenWithSpan]) -> usize {
    let (mut open, mut run, mut most) = (Vec::new(), 0, 1_usize);
    for token in tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))) {
        match token {
            Token::LParen => {
                open.push(1);
                run += 1;
                continue;
            }
            Token::RParen => {
                open.pop();
            }
            Token::Word(word) if matches!(word.keyword, Keyword::SELECT | Keyword::WITH) && run > 0 => {
                if let Some(innermost) = open.last_mut() {
                    *innermost = run;
                }
                most = most.max(open.iter().fold(1, |product, run| product.saturating_mul(*run)));
            }
            _ => {}
        }
        run = 0;
    }
    most
}

/// The longest row of `[]`.
fn dimensions(tokens: &[TokenWithSpan]) -> usize {
    let (mut row, mut longest, mut before) = (0, 0, &Token::EOF);
    for token in tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))) {
        match (before, token) {
            (Token::LBracket, Token::RBracket) => row += 1,
            (_, Token::LBracket) => {}
            _ => row = 0,
        }
        longest = longest.max(row);
        before = token;
    }
    longest
}

/// How deep the tree of these tokens is at most: tokens that join or wrap expressions, along one way down.
fn links(tokens: &[TokenWithSpan]) -> usize {
    /// A list within brackets.
    #[derive(Default)]
    struct List {
        item: usize,
        longest: usize,
    }
    let (mut around, mut list, mut longest) = (Vec::new(), List::default(), 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => around.push(std::mem::take(&mut list)),
            Token::RParen | Token::RBracket => {
                let within = list.longest.max(list.item);
                list = around.pop().unwrap_or_default();
                list.item = list.item.max(within) + 1;
            }
            Token::Comma | Token::SemiColon => {
                list.longest = list.longest.max(list.item);
                list.item = 0;
            }
            Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::Whitespace(_) => {}
            _ => list.item += 1,
        }
        longest = longest.max(list.item);
    }
    longest
}

/// How deep the visitor is.
struct Depth(usize);

impl Depth {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.0 += levels;
        if self.0 > DEPTH_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter(levels(&query.body))
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0 -= levels(&query.body);
        ControlFlow::Continue(())
    }
}

/// How deep UNION and its like are nested in each other.
fn levels(body: &SetExpr) -> usize {
    let (mut rest, mut deepest) = (vec![(body, 1)], 0);
    while let Some((body, depth)) = rest.pop() {
        deepest = deepest.max(depth);
        if let SetExpr::SetOperation { left, right, .. } = body {
            rest.extend([(&**left, depth + 1), (&**right, depth + 1)]);
        }
    }
    deepest
}
