//! `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE` of INSERT, which the SQL parser does not know: they stand
//! where Hive has its `PARTITION (…)`, and are read as one.

use datafusion::sql::sqlparser::ast::{Expr, Insert};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What the values that an INSERT gives for identity columns are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overriding {
    /// They count, also for columns that are GENERATED ALWAYS.
    System,
    /// They are passed over: the columns take values of their sequences.
    User,
}

impl Overriding {
    const ALL: [Self; 2] = [Self::System, Self::User];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::System => "overriding system value",
            Self::User => "overriding user value",
        }
    }

    /// What an INSERT says.
    pub fn of(insert: &Insert) -> Option<Self> {
        let [Expr::Identifier(name)] = insert.partitioned.as_deref()? else { return None };
        Self::named(&name.value)
    }

    /// By the words of its clause.
    pub(super) fn named(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|overriding| overriding.words() == words)
    }
}

/// The tokens of a text with this clause as a partition.
pub fn as_partition(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut rest: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut told = Vec::with_capacity(rest.len());
    while let Some(start) = rest.windows(3).position(|three| said(three).is_some()) {
        let overriding = said(&rest[start..start + 3]).expect("it is what was looked for");
        let after = rest.split_off(start + 3);
        let at = rest[start].span;
        told.extend(rest.drain(..start));
        told.extend(alias(&told));
        let name = Token::make_word(overriding.words(), Some('"'));
        let words = [Token::make_keyword("PARTITION"), Token::LParen, name, Token::RParen];
        told.extend(words.map(|token| TokenWithSpan { token, span: at }));
        rest = after;
    }
    told.append(&mut rest);
    told
}

/// Without columns, the parser would take the partition for the table's alias: it gets its own name as one.
fn alias(told: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let [.., before, last] = told else { return Vec::new() };
    let is_word = |token: &TokenWithSpan, keyword| matches!(&token.token, Token::Word(w) if w.keyword == keyword);
    match &last.token {
        Token::Word(_) if !is_word(before, Keyword::AS) => {
            vec![TokenWithSpan { token: Token::make_keyword("AS"), span: last.span }, last.clone()]
        }
        _ => Vec::new(),
    }
}

/// What three tokens say, if they are this clause.
pub(super) fn said(tokens: &[TokenWithSpan]) -> Option<Overriding> {
    let word = |at: usize| match &tokens[at].token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        _ => String::new(),
    };
    let value = matches!(&tokens[2].token, Token::Word(word) if word.keyword == Keyword::VALUE);
    match (word(0).as_str(), word(1).as_str(), value) {
        ("overriding", "system", true) => Some(Overriding::System),
        ("overriding", "user", true) => Some(Overriding::User),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;

    use super::*;
    use crate::fixture::{check, code, parsed};
    use crate::parse;

    #[test]
    fn it_stands_between_the_columns_and_the_rows() {
        let read = |sql: &str| {
            if let Err(error) = parse(sql) {
                return code(&error);
            }
            let Statement::Insert(insert) = parsed(sql) else { panic!("{sql} inserts nothing") };
            format!("{:?} {}", Overriding::of(&insert), insert.columns.len())
        };
        check(
            &[
                ("INSERT INTO t (a, b) OVERRIDING SYSTEM VALUE VALUES (1, 2)", "Some(System) 2"),
                ("insert into s.t overriding user value select 1", "Some(User) 0"),
                ("INSERT INTO t AS x (a) OVERRIDING USER VALUE VALUES (1) RETURNING a", "Some(User) 1"),
                ("INSERT INTO t (overriding) VALUES (1)", "None 1"),
                ("INSERT INTO t (a) PARTITION (b) VALUES (1)", "None 1"),
                ("INSERT INTO t (a) OVERRIDING VALUE VALUES (1)", "42601 at 1:19"),
            ],
            read,
        );
    }
}
