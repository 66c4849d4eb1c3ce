//! FETCH and MOVE: PostgreSQL leaves out the direction, and the word before the cursor's name.
//!
//! The parser's tree knows no MOVE: it is read as a FETCH into [`NOWHERE`].

use datafusion::sql::sqlparser::ast::{FetchDirection, FetchPosition, Ident, ObjectName, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

type Parsed<T> = Result<T, ParserError>;

/// What a MOVE fetches into: rows are passed over.
const NOWHERE: &str = "nowhere at all";

/// Whether a FETCH, by what it fetches into, was a MOVE.
pub fn is_move(into: &ObjectName) -> bool {
    matches!(&into.0[..], [part] if part.as_ident().is_some_and(|name| name.value == NOWHERE))
}

/// Reads the statement; the next word is FETCH or MOVE.
pub fn parse(parser: &mut Parser<'_>, moves: bool) -> Parsed<Statement> {
    parser.next_token();
    let direction = direction(parser)?;
    let position = match parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]) {
        Some(Keyword::IN) => FetchPosition::In,
        _ => FetchPosition::From,
    };
    let name = parser.parse_identifier()?;
    let into = moves.then(|| ObjectName::from(Ident::with_quote('"', NOWHERE)));
    Ok(Statement::Fetch { name, direction, position, into })
}

fn direction(parser: &mut Parser<'_>) -> Parsed<FetchDirection> {
    // A cursor may have the name of a direction.
    let names_cursor = matches!(parser.peek_nth_token(1).token, Token::EOF | Token::SemiColon);
    if names_cursor {
        return Ok(FetchDirection::Next);
    }
    Ok(if parser.parse_keyword(Keyword::NEXT) {
        FetchDirection::Next
    } else if parser.parse_keyword(Keyword::PRIOR) {
        FetchDirection::Prior
    } else if parser.parse_keyword(Keyword::FIRST) {
        FetchDirection::First
    } else if parser.parse_keyword(Keyword::LAST) {
        FetchDirection::Last
    } else if parser.parse_keyword(Keyword::ABSOLUTE) {
        FetchDirection::Absolute { limit: parser.parse_number_value()? }
    } else if parser.parse_keyword(Keyword::RELATIVE) {
        FetchDirection::Relative { limit: parser.parse_number_value()? }
    } else if parser.parse_keyword(Keyword::FORWARD) {
        match parser.parse_keyword(Keyword::ALL) {
            true => FetchDirection::ForwardAll,
            false => FetchDirection::Forward { limit: count(parser)? },
        }
    } else if parser.parse_keyword(Keyword::BACKWARD) {
        match parser.parse_keyword(Keyword::ALL) {
            true => FetchDirection::BackwardAll,
            false => FetchDirection::Backward { limit: count(parser)? },
        }
    } else if parser.parse_keyword(Keyword::ALL) {
        FetchDirection::All
    } else {
        match count(parser)? {
            Some(limit) => FetchDirection::Count { limit },
            None => FetchDirection::Next,
        }
    })
}

fn count(parser: &mut Parser<'_>) -> Parsed<Option<datafusion::sql::sqlparser::ast::ValueWithSpan>> {
    match parser.peek_token().token {
        Token::Number(..) => parser.parse_number_value().map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn directions_and_the_word_before_the_name_may_be_left_out() {
        check(
            &[
                ("FETCH c", "FETCH NEXT FROM c"),
                ("FETCH next", "FETCH NEXT FROM next"),
                ("FETCH FROM c", "FETCH NEXT FROM c"),
                ("FETCH 5 c", "FETCH 5 FROM c"),
                ("FETCH ALL IN c", "FETCH ALL IN c"),
                ("FETCH FORWARD c", "FETCH FORWARD FROM c"),
                ("FETCH FORWARD 10 \"C d\"", "FETCH FORWARD 10 FROM \"C d\""),
                ("FETCH BACKWARD ALL FROM c", "FETCH BACKWARD ALL FROM c"),
                ("FETCH ABSOLUTE 3 FROM c", "FETCH ABSOLUTE 3 FROM c"),
                ("FETCH 5 FROM c INTO t", "42601 at 1:16"),
                ("FETCH", "42601"),
                ("FETCH 5", "42601 at 1:7"),
            ],
            read,
        );
    }

    #[test]
    fn a_move_is_a_fetch_into_nowhere() {
        check(
            &[
                ("MOVE 2 FROM c", "FETCH 2 FROM c INTO \"nowhere at all\""),
                ("MOVE FORWARD 7 c; FETCH c", "FETCH FORWARD 7 FROM c INTO \"nowhere at all\"; FETCH NEXT FROM c"),
            ],
            read,
        );
    }
}
