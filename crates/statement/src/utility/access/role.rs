//! CREATE, ALTER and DROP ROLE, and which role a session acts as.

use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::said::{AccessStatement, MoreMembers, Read, RoleOptions, RoleSpec};
use super::words::{expect_word, is_word, name, setting_text, take_word};

pub fn spec(parser: &mut Parser<'_>) -> Read<RoleSpec> {
    let _group = is_word(parser, "group")
        && !matches!(parser.peek_nth_token(1).token, Token::Comma | Token::EOF)
        && take_word(parser, "group");
    if let Token::SingleQuotedString(text) = parser.peek_token().token {
        parser.next_token();
        return Ok(RoleSpec::Named(text));
    }
    for (word, meant) in [
        ("current_user", RoleSpec::CurrentUser),
        ("current_role", RoleSpec::CurrentUser),
        ("session_user", RoleSpec::SessionUser),
        ("public", RoleSpec::Public),
    ] {
        if take_word(parser, word) {
            return Ok(meant);
        }
    }
    Ok(RoleSpec::Named(name(parser)?))
}

pub fn specs(parser: &mut Parser<'_>) -> Read<Vec<RoleSpec>> {
    parser.parse_comma_separated(spec)
}

pub fn create(parser: &mut Parser<'_>, login: bool) -> Read<AccessStatement> {
    let name = name(parser)?;
    let _with = take_word(parser, "with");
    let mut options = RoleOptions { login: login.then_some(true), ..RoleOptions::default() };
    let mut members = MoreMembers::default();
    loop {
        if option(parser, &mut options)? {
            continue;
        }
        if take_word(parser, "in") {
            match take_word(parser, "role") || take_word(parser, "group") {
                true => members.member_of.extend(specs(parser)?),
                false => return parser.expected("ROLE", parser.peek_token()),
            }
        } else if take_word(parser, "role") || take_word(parser, "user") {
            members.members.extend(specs(parser)?);
        } else if take_word(parser, "admin") {
            members.admins.extend(specs(parser)?);
        } else if take_word(parser, "sysid") {
            parser.next_token();
        } else {
            at_end(parser)?;
            return Ok(AccessStatement::CreateRole { name, options, members });
        }
    }
}

fn at_end(parser: &Parser<'_>) -> Read<()> {
    match parser.peek_token().token {
        Token::EOF | Token::SemiColon => Ok(()),
        _ => parser.expected("an option of a role", parser.peek_token()),
    }
}

/// Reads one option, if one comes.
fn option(parser: &mut Parser<'_>, options: &mut RoleOptions) -> Read<bool> {
    let Token::Word(word) = parser.peek_token().token else { return Ok(false) };
    let word = word.value.to_lowercase();
    let (text, on) = match word.strip_prefix("no") {
        Some(rest) => (rest, false),
        None => (word.as_str(), true),
    };
    let switch = match text {
        "superuser" => &mut options.superuser,
        "createdb" => &mut options.create_db,
        "createrole" | "createuser" => &mut options.create_role,
        "inherit" => &mut options.inherit,
        "login" => &mut options.login,
        "replication" => &mut options.replication,
        "bypassrls" => &mut options.bypass_rls,
        _ => return valued(parser, options),
    };
    *switch = Some(on);
    parser.next_token();
    Ok(true)
}

/// The same of options with a value.
fn valued(parser: &mut Parser<'_>, options: &mut RoleOptions) -> Read<bool> {
    if is_word(parser, "encrypted") || is_word(parser, "password") {
        let _encrypted = take_word(parser, "encrypted");
        expect_word(parser, "password")?;
        options.password = Some(if take_word(parser, "null") { None } else { Some(parser.parse_literal_string()?) });
    } else if take_word(parser, "connection") {
        expect_word(parser, "limit")?;
        let sign = if parser.consume_token(&Token::Minus) { -1 } else { 1 };
        let limit = i32::try_from(parser.parse_literal_uint()?).unwrap_or(i32::MAX);
        options.connection_limit = Some(sign * limit);
    } else if take_word(parser, "valid") {
        expect_word(parser, "until")?;
        options.valid_until = Some(parser.parse_literal_string()?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

pub fn alter(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let role = if take_word(parser, "all") { None } else { Some(spec(parser)?) };
    if take_word(parser, "in") {
        expect_word(parser, "database")?;
        name(parser)?;
    }
    if take_word(parser, "reset") {
        let parameter = if take_word(parser, "all") { None } else { Some(parameter(parser)?) };
        return Ok(AccessStatement::RoleSetting { role, parameter, value: None });
    }
    if take_word(parser, "set") {
        let parameter = Some(parameter(parser)?);
        if !take_word(parser, "to") {
            parser.expect_token(&Token::Eq)?;
        }
        if take_word(parser, "default") {
            return Ok(AccessStatement::RoleSetting { role, parameter, value: None });
        }
        let values = parser.parse_comma_separated(|parser| parser.parse_expr())?;
        let value = values.iter().map(setting_text).collect::<Vec<_>>().join(", ");
        return Ok(AccessStatement::RoleSetting { role, parameter, value: Some(value) });
    }
    let Some(role) = role else { return parser.expected("SET or RESET", parser.peek_token()) };
    if take_word(parser, "rename") {
        expect_word(parser, "to")?;
        let RoleSpec::Named(name) = role else { return parser.expected("the name of a role", parser.peek_token()) };
        return Ok(AccessStatement::RenameRole { name, to: self::name(parser)? });
    }
    let _with = take_word(parser, "with");
    let mut options = RoleOptions::default();
    while option(parser, &mut options)? {}
    at_end(parser)?;
    Ok(AccessStatement::AlterRole { role, options })
}

fn parameter(parser: &mut Parser<'_>) -> Read<String> {
    Ok(parser.parse_object_name(false)?.to_string().to_lowercase())
}

pub fn alter_group(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let group = spec(parser)?;
    if take_word(parser, "rename") {
        expect_word(parser, "to")?;
        let RoleSpec::Named(name) = group else { return parser.expected("the name of a role", parser.peek_token()) };
        return Ok(AccessStatement::RenameRole { name, to: self::name(parser)? });
    }
    let add = take_word(parser, "add");
    if !add {
        expect_word(parser, "drop")?;
    }
    expect_word(parser, "user")?;
    Ok(AccessStatement::Members { group, members: specs(parser)?, add })
}

pub fn drop(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let if_exists = take_word(parser, "if");
    if if_exists {
        expect_word(parser, "exists")?;
    }
    Ok(AccessStatement::DropRoles { names: specs(parser)?, if_exists })
}

pub fn reassign(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let from = specs(parser)?;
    expect_word(parser, "to")?;
    Ok(AccessStatement::Reassign { from, to: spec(parser)? })
}

pub fn drop_owned(parser: &mut Parser<'_>) -> Read<AccessStatement> {
    let roles = specs(parser)?;
    let cascade = take_word(parser, "cascade");
    let _restrict = take_word(parser, "restrict");
    Ok(AccessStatement::DropOwned { roles, cascade })
}

pub fn set_role(parser: &mut Parser<'_>, local: bool) -> Read<AccessStatement> {
    Ok(AccessStatement::SetRole { local, role: chosen(parser)? })
}

pub fn set_session(parser: &mut Parser<'_>, reset: bool, local: bool) -> Read<AccessStatement> {
    let role = if reset { None } else { chosen(parser)? };
    Ok(AccessStatement::SetSession { local, role })
}

fn chosen(parser: &mut Parser<'_>) -> Read<Option<String>> {
    let _to = take_word(parser, "to") || parser.consume_token(&Token::Eq);
    if take_word(parser, "default") {
        return Ok(None);
    }
    if let Token::SingleQuotedString(text) = parser.peek_token().token {
        parser.next_token();
        return Ok(Some(text));
    }
    name(parser).map(Some)
}
