//! Statements about roles and privileges. Each is read here in full, and handed on as the call of a procedure whose
//! argument is its text: whoever carries it out reads that again.

mod grant;
mod role;
mod said;
mod words;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Statement,
    Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use self::said::Read;
pub use self::said::{AccessStatement, Grant, Granted, MoreMembers, Objects, RoleOptions, RoleSpec};
use self::words::take_word;
use crate::function::function;
use crate::syntax::Syntax;
use saki_catalog::{ObjectKind, Result};

/// The procedure's name, which no other has.
const PROCEDURE: &str = "access statement";

impl AccessStatement {
    /// The statement that a call stands for, if it is one.
    pub fn of(call: &Function) -> Result<Option<Self>> {
        let Some(text) = text_of(call) else { return Ok(None) };
        Ok(read(&mut Parser::new(&Syntax).try_with_sql(text)?)?)
    }

    /// The first words of its completion.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateRole { .. } => "CREATE ROLE",
            Self::AlterRole { .. } | Self::Members { .. } | Self::RenameRole { .. } | Self::RoleSetting { .. } => {
                "ALTER ROLE"
            }
            Self::DropRoles { .. } => "DROP ROLE",
            Self::Grant(Grant { revoke, granted: Granted::Roles(_), .. }) if *revoke => "REVOKE ROLE",
            Self::Grant(Grant { granted: Granted::Roles(_), .. }) => "GRANT ROLE",
            Self::Grant(Grant { revoke: true, .. }) => "REVOKE",
            Self::Grant(_) => "GRANT",
            Self::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            Self::Owner { kind, .. } => match kind {
                ObjectKind::Table | ObjectKind::Column => "ALTER TABLE",
                ObjectKind::View => "ALTER VIEW",
                ObjectKind::Sequence => "ALTER SEQUENCE",
                ObjectKind::Schema => "ALTER SCHEMA",
                ObjectKind::Database => "ALTER DATABASE",
                ObjectKind::Type => "ALTER TYPE",
            },
            Self::Reassign { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::SetRole { .. } | Self::SetSession { .. } => "SET",
        }
    }

    /// Names of relations in it, and whether it is content if there are none of the name.
    pub fn relations_mut(&mut self) -> (&mut [ObjectName], bool) {
        let is_relation = |kind| matches!(kind, ObjectKind::Table | ObjectKind::View | ObjectKind::Sequence);
        let named = match self {
            Self::Grant(Grant { granted: Granted::On { objects: Objects::Named(kind, names), .. }, .. }) => {
                Some((*kind, &mut names[..], false))
            }
            Self::Owner { kind, name, if_exists, .. } => Some((*kind, std::slice::from_mut(name), *if_exists)),
            _ => None,
        };
        named.filter(|(kind, ..)| is_relation(*kind)).map_or((&mut [], false), |(_, names, optional)| (names, optional))
    }

    /// The name of a type in it.
    pub fn type_mut(&mut self) -> Option<&mut ObjectName> {
        match self {
            Self::Owner { kind: ObjectKind::Type, name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether it changes only what the session is.
    pub fn is_of_session(&self) -> bool {
        matches!(self, Self::SetRole { .. } | Self::SetSession { .. })
    }
}

fn text_of(call: &Function) -> Option<&str> {
    let is_meant = matches!(&call.name.0[..], [ObjectNamePart::Identifier(name)] if name.value == PROCEDURE);
    let FunctionArguments::List(list) = &call.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] if is_meant => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the word is in a text. Every statement is asked, so it is looked for by its rarest letter.
fn names_password(text: &[u8]) -> bool {
    const WORD: &[u8] = b"password";
    let is_here =
        |at: usize| text.get(at.wrapping_sub(4)..at + 4).is_some_and(|found| found.eq_ignore_ascii_case(WORD));
    text.iter().enumerate().any(|(at, letter)| letter | 0x20 == b'w' && is_here(at))
}

/// A text of statements without the passwords in it, for those who watch; `None` if there are none.
pub fn without_passwords(sql: &str) -> Option<String> {
    if !names_password(sql.as_bytes()) {
        return None;
    }
    let Ok(tokens) = Tokenizer::new(&Syntax, sql).tokenize() else { return Some("<password>".to_owned()) };
    let (mut shown, mut is_next, mut has_any) = (String::with_capacity(sql.len()), false, false);
    for token in &tokens {
        match token {
            Token::Whitespace(_) => shown.push_str(&token.to_string()),
            Token::Word(word) => {
                is_next = word.quote_style.is_none() && word.value.eq_ignore_ascii_case("password");
                shown.push_str(&token.to_string());
            }
            _ if is_next && !matches!(token, Token::Comma | Token::RParen | Token::Eq) => {
                shown.push_str("'***'");
                (is_next, has_any) = (false, true);
            }
            _ => {
                is_next = false;
                shown.push_str(&token.to_string());
            }
        }
    }
    has_any.then_some(shown)
}

/// Reads one of these statements, if it is one.
pub fn parse(parser: &mut Parser<'_>) -> Read<Option<Statement>> {
    let begun = parser.index();
    if read(parser)?.is_none() {
        return Ok(None);
    }
    let text: String = (begun..parser.index()).map(|at| parser.token_at(at).to_string()).collect();
    let text = Expr::Value(Value::SingleQuotedString(text).into());
    Ok(Some(Statement::Call(function(Ident::with_quote('"', PROCEDURE), vec![text]))))
}

/// Words ahead, in lower case; none where there is something else.
fn ahead(parser: &Parser<'_>) -> [String; 3] {
    [0, 1, 2].map(|at| match parser.peek_nth_token(at).token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        _ => String::new(),
    })
}

fn read(parser: &mut Parser<'_>) -> Read<Option<AccessStatement>> {
    let [first, second, third] = ahead(parser);
    let skip = |parser: &mut Parser<'_>, words: usize| (0..words).for_each(|_| drop(parser.next_token()));
    Ok(Some(match (first.as_str(), second.as_str(), third.as_str()) {
        ("create", "role" | "user" | "group", _) => {
            skip(parser, 2);
            role::create(parser, second == "user")?
        }
        ("alter", "role" | "user", _) => {
            skip(parser, 2);
            role::alter(parser)?
        }
        ("alter", "group", _) => {
            skip(parser, 2);
            role::alter_group(parser)?
        }
        ("drop", "role" | "user" | "group", _) => {
            skip(parser, 2);
            role::drop(parser)?
        }
        ("grant" | "revoke", ..) => {
            skip(parser, 1);
            AccessStatement::Grant(grant::read(parser, first == "revoke", false)?)
        }
        ("alter", "default", "privileges") => {
            skip(parser, 3);
            grant::defaults(parser)?
        }
        ("reassign", "owned", "by") => {
            skip(parser, 3);
            role::reassign(parser)?
        }
        ("drop", "owned", "by") => {
            skip(parser, 3);
            role::drop_owned(parser)?
        }
        ("set", "role", _) => {
            skip(parser, 2);
            role::set_role(parser, false)?
        }
        ("set", "session" | "local", "role") => {
            skip(parser, 3);
            role::set_role(parser, second == "local")?
        }
        ("reset", "role", _) => {
            skip(parser, 2);
            AccessStatement::SetRole { local: false, role: None }
        }
        ("set" | "reset", "session", "authorization") => {
            skip(parser, 3);
            role::set_session(parser, first == "reset", false)?
        }
        ("set", "local" | "session", "session") => {
            skip(parser, 3);
            if !take_word(parser, "authorization") {
                return parser.expected("AUTHORIZATION", parser.peek_token());
            }
            role::set_session(parser, false, second == "local")?
        }
        ("alter", "table" | "view" | "sequence" | "schema" | "database" | "type", _) => return owner(parser, &second),
        _ => return Ok(None),
    }))
}

/// ALTER … OWNER TO; anything else that ALTER may say is left alone.
fn owner(parser: &mut Parser<'_>, kind: &str) -> Read<Option<AccessStatement>> {
    let kind = match kind {
        "table" => ObjectKind::Table,
        "view" => ObjectKind::View,
        "sequence" => ObjectKind::Sequence,
        "schema" => ObjectKind::Schema,
        "type" => ObjectKind::Type,
        _ => ObjectKind::Database,
    };
    let head = parser.maybe_parse(|parser| {
        parser.next_token();
        parser.next_token();
        let if_exists = take_word(parser, "if") && take_word(parser, "exists");
        let _only = take_word(parser, "only");
        let name = parser.parse_object_name(false)?;
        match take_word(parser, "owner") && take_word(parser, "to") {
            true => Ok((name, if_exists)),
            false => parser.expected("OWNER TO", parser.peek_token()),
        }
    })?;
    let Some((name, if_exists)) = head else { return Ok(None) };
    let to = role::spec(parser)?;
    Ok(Some(AccessStatement::Owner { kind, name, if_exists, to }))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::Statement as Parsed;

    use super::*;
    use crate::fixture::{check, code};

    fn statement(sql: &str) -> Result<Option<AccessStatement>> {
        match crate::parse(sql)?.pop() {
            Some(Parsed::Statement(statement)) => match *statement {
                Statement::Call(call) => AccessStatement::of(&call),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn tag(sql: &str) -> String {
        match statement(sql) {
            Ok(found) => found.map_or("something else", |found| found.tag()).to_owned(),
            Err(error) => code(&error),
        }
    }

    #[test]
    fn statements_are_known_by_their_first_words() {
        check(
            &[
                ("CREATE ROLE a", "CREATE ROLE"),
                ("create user a with password 'x' login valid until '2030-01-01' connection limit 3", "CREATE ROLE"),
                ("CREATE ROLE a SUPERUSER IN ROLE b, c ADMIN d", "CREATE ROLE"),
                ("CREATE ROLE a NONSENSE", "42601 at 1:15"),
                ("ALTER USER a NOLOGIN PASSWORD NULL", "ALTER ROLE"),
                ("ALTER ROLE a RENAME TO b", "ALTER ROLE"),
                ("ALTER ROLE ALL SET statement_timeout TO '5s'", "ALTER ROLE"),
                ("ALTER ROLE a RESET ALL", "ALTER ROLE"),
                ("ALTER GROUP g ADD USER a, b", "ALTER ROLE"),
                ("DROP ROLE IF EXISTS a, b", "DROP ROLE"),
                ("GRANT a, b TO c WITH ADMIN OPTION", "GRANT ROLE"),
                ("REVOKE ADMIN OPTION FOR a FROM b", "REVOKE ROLE"),
                ("GRANT SELECT, INSERT (a, b) ON t, s.u TO PUBLIC", "GRANT"),
                ("GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO a WITH GRANT OPTION", "GRANT"),
                ("REVOKE GRANT OPTION FOR ALL ON SCHEMA s FROM CURRENT_USER CASCADE", "REVOKE"),
                (
                    "ALTER DEFAULT PRIVILEGES FOR ROLE a IN SCHEMA s GRANT SELECT ON TABLES TO b",
                    "ALTER DEFAULT PRIVILEGES",
                ),
                ("ALTER TABLE IF EXISTS s.t OWNER TO a", "ALTER TABLE"),
                ("ALTER TABLE t ADD COLUMN owner int", "something else"),
                ("ALTER SCHEMA s OWNER TO SESSION_USER", "ALTER SCHEMA"),
                ("ALTER TYPE s.mood OWNER TO a", "ALTER TYPE"),
                ("ALTER TYPE mood ADD VALUE 'owner'", "something else"),
                ("REASSIGN OWNED BY a, b TO c", "REASSIGN OWNED"),
                ("DROP OWNED BY a CASCADE", "DROP OWNED"),
                ("SET ROLE a", "SET"),
                ("SET LOCAL ROLE 'a'", "SET"),
                ("SET role TO none", "SET"),
                ("RESET SESSION AUTHORIZATION", "SET"),
                ("SET search_path = x", "something else"),
                ("GRANT SELECT ON t", "42601"),
                ("GRANT SELECT ON function TO a", "GRANT"),
                ("GRANT EXECUTE ON FUNCTION f(int, text), g() TO a", "GRANT"),
                ("REVOKE ALL ON FUNCTION f(int) FROM PUBLIC", "REVOKE"),
                ("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA s TO a", "GRANT"),
                ("GRANT INSERT ON ALL FUNCTIONS IN SCHEMA s TO a", "42601 at 1:43"),
                ("GRANT USAGE ON ALL TYPES IN SCHEMA s TO a", "42601 at 1:20"),
                ("GRANT EXECUTE ON FUNCTION f(", "42601"),
                ("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC", "ALTER DEFAULT PRIVILEGES"),
            ],
            tag,
        );
    }

    #[test]
    fn nobody_is_shown_a_password() {
        let shown = |sql: &str| without_passwords(sql).unwrap_or_else(|| sql.to_owned());
        assert_eq!(shown("SELECT password FROM t"), "SELECT password FROM t");
        assert_eq!(shown("SET word = www"), "SET word = www");
        assert_eq!(shown("ALTER ROLE a PASSWORD 'x'; SELECT 1"), "ALTER ROLE a PASSWORD '***'; SELECT 1");
        assert_eq!(shown("create user a encrypted password E'x\\'y'"), "create user a encrypted password '***'");
        assert_eq!(shown("SELECT 'x"), "SELECT 'x");
        assert_eq!(shown("ALTER ROLE a PASSWORD 'x"), "<password>");
    }
}
