//! COMMENT ON object IS text: also on constraints, and with every way to write a text.
//!
//! The parser's tree knows no constraints: `COMMENT ON CONSTRAINT c ON s.t` is read as one on [`CONSTRAINT`] `s.t.c`.

use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName, ObjectNamePart, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

type Parsed<T> = Result<T, ParserError>;

/// The object that stands for constraints: there are no procedures that anybody could comment on.
pub const CONSTRAINT: CommentObject = CommentObject::Procedure;

/// Reads the statement; the next word is COMMENT.
pub fn parse(parser: &mut Parser<'_>) -> Parsed<Statement> {
    parser.expect_keywords(&[Keyword::COMMENT, Keyword::ON])?;
    let kind = parser.next_token();
    let Token::Word(word) = &kind.token else { return parser.expected("what the comment is on", kind) };
    let object_type = match word.value.to_lowercase().as_str() {
        "column" => CommentObject::Column,
        "constraint" => CONSTRAINT,
        "database" => CommentObject::Database,
        "domain" => CommentObject::Domain,
        "extension" => CommentObject::Extension,
        "function" | "procedure" | "routine" | "aggregate" => CommentObject::Function,
        "index" => CommentObject::Index,
        "materialized" => CommentObject::MaterializedView,
        "role" => CommentObject::Role,
        "schema" => CommentObject::Schema,
        "sequence" => CommentObject::Sequence,
        "table" => CommentObject::Table,
        "type" => CommentObject::Type,
        "view" => CommentObject::View,
        _ => return parser.expected("what the comment is on", kind),
    };
    if object_type == CommentObject::MaterializedView {
        parser.expect_keyword(Keyword::VIEW)?;
    }
    let object_name = if object_type == CONSTRAINT { constraint(parser)? } else { parser.parse_object_name(false)? };
    if object_type == CommentObject::Function && parser.peek_token() == Token::LParen {
        // Its arguments; it is refused whatever they are.
        while !matches!(parser.next_token().token, Token::RParen | Token::EOF) {}
    }
    parser.expect_keyword(Keyword::IS)?;
    let comment = if parser.parse_keyword(Keyword::NULL) { None } else { Some(text(parser)?) };
    Ok(Statement::Comment { object_type, object_name, comment, if_exists: false })
}

/// `c ON t` as `t.c`.
fn constraint(parser: &mut Parser<'_>) -> Parsed<ObjectName> {
    let name: Ident = parser.parse_identifier()?;
    parser.expect_keyword(Keyword::ON)?;
    let mut table = parser.parse_object_name(false)?;
    table.0.push(ObjectNamePart::Identifier(name));
    Ok(table)
}

fn text(parser: &mut Parser<'_>) -> Parsed<String> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
            Ok(text)
        }
        Token::DollarQuotedString(quoted) => Ok(quoted.value),
        _ => parser.expected("a text or NULL", token),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, read};

    #[test]
    fn texts_are_written_in_every_way_of_postgresql() {
        check(
            &[
                ("COMMENT ON TABLE s.t IS 'x'", "COMMENT ON TABLE s.t IS 'x'"),
                ("comment on column t.a is null", "COMMENT ON COLUMN t.a IS NULL"),
                ("COMMENT ON TABLE t IS $$x$$", "COMMENT ON TABLE t IS 'x'"),
                ("COMMENT ON TABLE t IS $q$x $$ y$q$", "COMMENT ON TABLE t IS 'x $$ y'"),
                (r"COMMENT ON TABLE t IS E'a\x62'", "COMMENT ON TABLE t IS 'ab'"),
                ("COMMENT ON TABLE t IS 5", "42601 at 1:23"),
                ("COMMENT ON TABLE t", "42601"),
                ("COMMENT ON TABLE t IS 'x' y", "42601 at 1:27"),
            ],
            read,
        );
    }

    #[test]
    fn a_constraint_is_named_behind_its_table() {
        check(
            &[
                ("COMMENT ON CONSTRAINT c ON t IS 'x'", "COMMENT ON PROCEDURE t.c IS 'x'"),
                ("COMMENT ON CONSTRAINT \"C d\" ON s.t IS NULL", "COMMENT ON PROCEDURE s.t.\"C d\" IS NULL"),
                ("COMMENT ON CONSTRAINT c IS 'x'", "42601 at 1:25"),
                ("COMMENT ON PROCEDURE p(int, text) IS 'x'", "COMMENT ON FUNCTION p IS 'x'"),
                ("COMMENT ON FUNCTION f() IS 'x'", "COMMENT ON FUNCTION f IS 'x'"),
                ("COMMENT ON NOSUCH t IS 'x'", "42601 at 1:12"),
                ("COMMENT IF EXISTS ON TABLE t IS 'x'", "42601 at 1:9"),
            ],
            read,
        );
    }
}
