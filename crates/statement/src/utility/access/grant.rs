//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::role::{spec, specs};
use super::said::{AccessStatement, Grant, Granted, Objects, Read, RoleSpec};
use super::words::{expect_word, is_word, name, take_word};
use saki_catalog::{ObjectKind, Privilege};

/// Reads what follows GRANT or REVOKE.
pub fn read(parser: &mut Parser<'_>, revoke: bool, is_default: bool) -> Read<Grant> {
    let mut option = false;
    if revoke && (is_word(parser, "grant") || is_word(parser, "admin")) && is_option_for(parser) {
        parser.next_token();
        parser.next_token();
        expect_word(parser, "for")?;
        option = true;
    }
    let (privileges, words) = list(parser)?;
    let granted = if !take_word(parser, "on") {
        let roles = words.into_iter().map(|(name, _)| RoleSpec::Named(name)).collect();
        Granted::Roles(roles)
    } else if is_default {
        let kind = future_kind(parser)?;
        let set = match privileges {
            None => None,
            Some(()) if kind.is_none() => other_rights(parser, &words).map(|()| None)?,
            Some(()) => Some(rights(parser, &words)?.into_iter().map(|(privilege, _)| privilege).collect()),
        };
        Granted::Future { privileges: set, kind }
    } else {
        let columns_of_all = privileges.is_none().then(|| words.first().map(|(_, c)| c.clone())).flatten();
        let objects = objects(parser)?;
        let privileges = match (privileges, &objects) {
            (None, _) => None,
            (Some(()), Objects::AllIn(None, _) | Objects::Other(_)) => other_rights(parser, &words).map(|()| None)?,
            (Some(()), _) => Some(rights(parser, &words)?),
        };
        Granted::On { privileges, columns_of_all: columns_of_all.unwrap_or_default(), objects }
    };
    expect_word(parser, if revoke { "from" } else { "to" })?;
    let grantees = specs(parser)?;
    let (mut granted_by, mut cascade) = (None, false);
    loop {
        if take_word(parser, "with") {
            let _kind = take_word(parser, "grant") || take_word(parser, "admin");
            expect_word(parser, "option")?;
            option = true;
        } else if take_word(parser, "granted") {
            expect_word(parser, "by")?;
            granted_by = Some(spec(parser)?);
        } else if revoke && take_word(parser, "cascade") {
            cascade = true;
        } else if !(revoke && take_word(parser, "restrict")) {
            return Ok(Grant { revoke, granted, grantees, option, granted_by, cascade });
        }
    }
}

fn is_option_for(parser: &Parser<'_>) -> bool {
    let is = |at: usize, text: &str| match parser.peek_nth_token(at).token {
        Token::Word(word) => word.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    is(1, "option") && is(2, "for")
}

/// Words before ON, TO or FROM, each with its columns. The first is `None` for ALL.
#[expect(clippy::type_complexity, reason = "a list of names with lists of names")]
fn list(parser: &mut Parser<'_>) -> Read<(Option<()>, Vec<(String, Vec<String>)>)> {
    if is_word(parser, "all") && !matches!(parser.peek_nth_token(1).token, Token::Comma) {
        parser.next_token();
        let _privileges = take_word(parser, "privileges");
        let columns = columns(parser)?;
        return Ok((None, vec![("all".to_owned(), columns)]));
    }
    let words = parser.parse_comma_separated(|parser| Ok((name(parser)?, columns(parser)?)))?;
    Ok((Some(()), words))
}

fn columns(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(Vec::new());
    }
    let columns = parser.parse_comma_separated(name)?;
    parser.expect_token(&Token::RParen)?;
    Ok(columns)
}

fn rights(parser: &Parser<'_>, words: &[(String, Vec<String>)]) -> Read<Vec<(Privilege, Vec<String>)>> {
    let right = |(word, columns): &(String, Vec<String>)| match Privilege::named(word) {
        Some(privilege) => Ok((privilege, columns.clone())),
        None => parser.expected(&format!("a privilege, not {word}"), parser.peek_token()),
    };
    words.iter().map(right).collect()
}

/// Takes the rights that are about functions, types and what else has none here.
fn other_rights(parser: &Parser<'_>, words: &[(String, Vec<String>)]) -> Read<()> {
    let is_other = |word: &str| ["execute", "usage", "create", "select", "update", "set"].contains(&word);
    match words.iter().find(|(word, columns)| !is_other(word) || !columns.is_empty()) {
        Some((word, _)) => parser.expected(&format!("a privilege, not {word}"), parser.peek_token()),
        None => Ok(()),
    }
}

/// Passes over objects of a kind that has no privileges here, if that is what comes: their kind.
fn other_objects(parser: &mut Parser<'_>) -> Option<Objects> {
    let kinds = [
        ("function", "functions"),
        ("procedure", "functions"),
        ("routine", "functions"),
        ("type", "types"),
        ("domain", "types"),
        ("language", "languages"),
        ("tablespace", "tablespaces"),
        ("large", "large objects"),
        ("foreign", "foreign servers"),
        ("parameter", "parameters"),
    ];
    let (_, kind) = kinds.into_iter().find(|(word, _)| is_word(parser, word))?;
    if !matches!(parser.peek_nth_token(1).token, Token::Word(_)) || is_to(parser) {
        // A table that is called so.
        return None;
    }
    let mut depth = 0;
    loop {
        let is_end = depth == 0 && (is_word(parser, "to") || is_word(parser, "from"));
        match parser.peek_token().token {
            _ if is_end => return Some(Objects::Other(kind)),
            Token::EOF | Token::SemiColon => return Some(Objects::Other(kind)),
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        parser.next_token();
    }
}

fn objects(parser: &mut Parser<'_>) -> Read<Objects> {
    if let Some(other) = other_objects(parser) {
        return Ok(other);
    }
    if is_word(parser, "all") {
        parser.next_token();
        if is_word(parser, "types") {
            return parser.expected("TABLES, SEQUENCES or FUNCTIONS", parser.peek_token());
        }
        let kind = future_kind(parser)?;
        expect_word(parser, "in")?;
        expect_word(parser, "schema")?;
        return Ok(Objects::AllIn(kind, parser.parse_comma_separated(name)?));
    }
    for (word, kind) in
        [("sequence", ObjectKind::Sequence), ("schema", ObjectKind::Schema), ("database", ObjectKind::Database)]
    {
        if is_word(parser, word) && matches!(parser.peek_nth_token(1).token, Token::Word(_)) && !is_to(parser) {
            parser.next_token();
            return Ok(Objects::Named(kind, names(parser)?));
        }
    }
    if is_word(parser, "table") && !is_to(parser) {
        parser.next_token();
    }
    Ok(Objects::Named(ObjectKind::Table, names(parser)?))
}

/// Whether the word after the next ends the list: then the next is a name.
fn is_to(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_nth_token(1).token, Token::Word(word)
        if word.quote_style.is_none() && ["to", "from"].contains(&&*word.value.to_lowercase()))
}

fn names(parser: &mut Parser<'_>) -> Read<Vec<ObjectName>> {
    parser.parse_comma_separated(|parser| parser.parse_object_name(false))
}

/// TABLES, SEQUENCES, SCHEMAS; functions and types are `None`.
fn future_kind(parser: &mut Parser<'_>) -> Read<Option<ObjectKind>> {
    let found = parser.peek_token();
    Ok(match name(parser)?.as_str() {
        "tables" => Some(ObjectKind::Table),
        "sequences" => Some(ObjectKind::Sequence),
        "schemas" => Some(ObjectKind::Schema),
        "functions" | "routines" | "procedures" | "types" => None,
        _ => return parser.expected("TABLES, SEQUENCES or SCHEMAS", found),
    })
}

pub fn defaults(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if take_word(parser, "for") {
            if !(take_word(parser, "role") || take_word(parser, "user")) {
                return parser.expected("ROLE", parser.peek_token());
            }
            roles = specs(parser)?;
        } else if take_word(parser, "in") {
            expect_word(parser, "schema")?;
            schemas = parser.parse_comma_separated(name)?;
        } else {
            break;
        }
    }
    let revoke = take_word(parser, "revoke");
    if !revoke {
        expect_word(parser, "grant")?;
    }
    Ok(AccessStatement::Defaults { roles, schemas, grant: read(parser, revoke, true)? })
}
