//! What a statement is, for a front end that carries some of them out itself: a server keeps the parameters of its
//! connections, their prepared statements, and the streams of COPY.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, CopySource, CopyTarget, DiscardObject, Set, SetExpr};

use super::parsed::Parsed;
use saki_catalog::{Result, SqlError};
use saki_postgres::statement::copy::{CopyFormat, CopyKind};
use saki_postgres::statement::{is_move, name_of, object_name, setting_text};

/// A table as a statement names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableName {
    /// As the catalog has it, if `public` stands for no schema.
    pub name: String,
    pub is_qualified: bool,
}

/// A statement as a front end sees it.
pub enum Command {
    /// The session runs it.
    Run,
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION and their like: the session runs it, and it takes no
    /// planning.
    Transaction,
    /// SET, RESET and SHOW of parameters: the session carries them out, and they take no planning.
    Parameter,
    Prepare {
        name: String,
        /// As they are spelled.
        types: Vec<ast::DataType>,
        statement: Parsed,
    },
    /// `arguments` is a query whose one row has them; `None` if there are none.
    Execute {
        name: String,
        arguments: Option<Parsed>,
    },
    /// DECLARE … CURSOR FOR a query; `hold`: it outlives the transaction.
    Declare {
        name: String,
        query: Parsed,
        hold: bool,
    },
    /// The next `count` rows of a cursor; `None`: all that are left.
    Fetch {
        name: String,
        count: Option<u64>,
    },
    /// MOVE: passes over the next `count` rows of a cursor; `None`: all that are left.
    Move {
        name: String,
        count: Option<u64>,
    },
    /// UNLISTEN: nobody listens to anything, since LISTEN is refused.
    Unlisten,
    /// Of a cursor; `None`: all.
    Close(Option<String>),
    /// `None`: all.
    Deallocate(Option<String>),
    Discard(Discarded),
    CopyIn {
        table: TableName,
        columns: Vec<String>,
        format: CopyFormat,
    },
    CopyOut {
        query: Parsed,
        format: CopyFormat,
    },
}

/// A bound of a transaction, or within one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    /// COMMIT or ROLLBACK.
    End,
}

/// What DISCARD is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discarded {
    All,
    /// Temporary tables.
    Temporary,
    /// What the session knows of sequences.
    Sequences,
    /// What is only kept to be quicker.
    Kept,
}

impl Parsed {
    /// What this statement is.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported`, for options that are not known.
    pub fn command(&self) -> Result<Command> {
        use ast::Statement as Sql;
        let Statement::Statement(statement) = &self.0 else { return Ok(Command::Run) };
        Ok(match statement.as_ref() {
            Sql::StartTransaction { .. }
            | Sql::Commit { .. }
            | Sql::Rollback { .. }
            | Sql::Savepoint { .. }
            | Sql::ReleaseSavepoint { .. } => Command::Transaction,
            Sql::Set(Set::SetTransaction { .. }) => Command::Transaction,
            Sql::Set(_) | Sql::Reset(_) | Sql::ShowVariable { .. } => Command::Parameter,
            Sql::Prepare { name, data_types, statement } => Command::Prepare {
                name: name_of(name),
                types: data_types.clone(),
                statement: Self(Statement::Statement(statement.clone()), self.1),
            },
            Sql::Execute { name: Some(name), parameters, .. } => {
                Command::Execute { name: object_name(name)?.0, arguments: selected(parameters)? }
            }
            Sql::Declare { stmts } => declared(stmts)?,
            Sql::Fetch { name, direction, into: None, .. } => {
                Command::Fetch { name: name_of(name), count: fetched(direction)? }
            }
            Sql::Fetch { name, direction, .. } => Command::Move { name: name_of(name), count: fetched(direction)? },
            Sql::Close { cursor } => Command::Close(match cursor {
                ast::CloseCursor::All => None,
                ast::CloseCursor::Specific { name } => Some(name_of(name)),
            }),
            Sql::Deallocate { name, .. } => {
                let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                Command::Deallocate((!all).then(|| name_of(name)))
            }
            Sql::Discard { object_type } => Command::Discard(match object_type {
                DiscardObject::ALL => Discarded::All,
                DiscardObject::TEMP => Discarded::Temporary,
                DiscardObject::SEQUENCES => Discarded::Sequences,
                DiscardObject::PLANS => Discarded::Kept,
            }),
            Sql::Copy {
                source, to, target: CopyTarget::Stdin | CopyTarget::Stdout, options, legacy_options, ..
            } => {
                let format = CopyFormat::read(options, legacy_options, CopyKind::Text)?;
                match (to, source) {
                    (true, source) => Command::CopyOut { query: copied(source)?, format },
                    (false, CopySource::Table { table_name, columns }) => Command::CopyIn {
                        table: TableName { name: object_name(table_name)?.0, is_qualified: table_name.0.len() > 1 },
                        columns: columns.iter().map(name_of).collect(),
                        format,
                    },
                    (false, CopySource::Query(_)) => {
                        return Err(SqlError::invalid("COPY … FROM fills a table, not a query"));
                    }
                }
            }
            Sql::LISTEN { .. } => return Err(SqlError::unsupported("LISTEN is not supported")),
            Sql::UNLISTEN { .. } => Command::Unlisten,
            Sql::NOTIFY { .. } => return Err(SqlError::unsupported("NOTIFY is not supported")),
            _ => Command::Run,
        })
    }

    /// Where in a transaction it stands, if it ends it or is about a savepoint.
    pub fn bound(&self) -> Option<Bound> {
        use ast::Statement as Sql;
        let Statement::Statement(statement) = &self.0 else { return None };
        match statement.as_ref() {
            Sql::Savepoint { name } => Some(Bound::Savepoint(name_of(name))),
            Sql::ReleaseSavepoint { name } => Some(Bound::Release(name_of(name))),
            Sql::Rollback { savepoint: Some(name), .. } => Some(Bound::RollbackTo(name_of(name))),
            Sql::Commit { .. } | Sql::Rollback { .. } => Some(Bound::End),
            _ => None,
        }
    }

    /// Whether it is about the transaction itself: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their like.
    pub fn is_transaction(&self) -> bool {
        matches!(self.command(), Ok(Command::Transaction))
    }

    /// The first word of the statement's completion: `SELECT` for every query.
    pub fn verb(&self) -> &'static str {
        use ast::Statement as Sql;
        let Statement::Statement(statement) = &self.0 else { return "CREATE TABLE" };
        match statement.as_ref() {
            Sql::Query(query) => match query.body.as_ref() {
                SetExpr::Insert(_) => "INSERT",
                SetExpr::Update(_) => "UPDATE",
                SetExpr::Delete(_) => "DELETE",
                SetExpr::Merge(_) => "MERGE",
                _ => "SELECT",
            },
            Sql::Insert(_) => "INSERT",
            Sql::Update(_) => "UPDATE",
            Sql::Delete(_) => "DELETE",
            Sql::Merge(_) => "MERGE",
            Sql::Copy { .. } => "COPY",
            Sql::Explain { .. } | Sql::ExplainTable { .. } => "EXPLAIN",
            Sql::ShowVariable { .. } | Sql::ShowTables { .. } | Sql::ShowColumns { .. } => "SHOW",
            Sql::StartTransaction { .. } => "BEGIN",
            Sql::Commit { .. } => "COMMIT",
            Sql::Rollback { .. } => "ROLLBACK",
            Sql::Set(_) => "SET",
            Sql::Fetch { into: Some(into), .. } if is_move(into) => "MOVE",
            Sql::Fetch { .. } => "FETCH",
            _ => "OTHER",
        }
    }
}

/// A parameter and what SET makes it; `None` is DEFAULT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    pub name: String,
    pub value: Option<String>,
    /// Until the transaction ends.
    pub local: bool,
}

impl Assignment {
    /// What a SET says; `None`: it is about something else than a parameter.
    pub fn read(set: &Set) -> Option<Self> {
        let assigned = |name: &str, value: Option<String>, local| Some(Self { name: name.into(), value, local });
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let parts: Vec<String> = variable.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
                let name = parts.join(".");
                let texts: Option<Vec<String>> = values.iter().map(setting_text).collect();
                let local = matches!(scope, Some(ast::ContextModifier::Local));
                let value = texts.map(|texts| match name.eq_ignore_ascii_case("search_path") {
                    true => saki_parameters::identifiers(&texts),
                    false => texts.join(", "),
                });
                assigned(&name, value, local)
            }
            Set::SetTimeZone { local, value } => {
                let text = setting_text(value).filter(|text| !text.eq_ignore_ascii_case("local"));
                assigned("timezone", text, *local)
            }
            Set::SetNames { charset_name, .. } => assigned("client_encoding", Some(charset_name.value.clone()), false),
            Set::SetNamesDefault {} => assigned("client_encoding", None, false),
            _ => None,
        }
    }
}

/// The parameter that SHOW names, as the table of parameters spells it.
pub fn shown_name(variable: &[ast::Ident]) -> String {
    let words: Vec<String> = variable.iter().map(name_of).collect();
    let name = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["transaction", "isolation", "level"] => "transaction_isolation".into(),
        ["session", "authorization"] => "session_authorization".into(),
        ["time", "zone"] => "timezone".into(),
        _ => words.join("."),
    };
    saki_parameters::find(&name).map_or(name, |definition| definition.name.to_owned())
}

fn declared(cursors: &[ast::Declare]) -> Result<Command> {
    let refused = |what: &str| Err(SqlError::unsupported(format!("DECLARE: {what} is not supported")));
    let [ast::Declare { names, for_query: Some(query), binary, scroll, hold, .. }] = cursors else {
        return refused("what is not a cursor for a query");
    };
    let ([name], None | Some(false), None | Some(false)) = (&names[..], binary, scroll) else {
        return refused(if *scroll == Some(true) { "SCROLL" } else { "BINARY" });
    };
    let query = Parsed::made(Statement::Statement(Box::new(ast::Statement::Query(query.clone()))));
    Ok(Command::Declare { name: name_of(name), query, hold: *hold == Some(true) })
}

/// How many rows FETCH asks for; `None`: all.
fn fetched(direction: &ast::FetchDirection) -> Result<Option<u64>> {
    use ast::FetchDirection as Direction;
    let limit = match direction {
        Direction::Next | Direction::Forward { limit: None } => return Ok(Some(1)),
        Direction::All | Direction::ForwardAll => return Ok(None),
        Direction::Count { limit } | Direction::Forward { limit: Some(limit) } => limit.to_string().parse().ok(),
        _ => None,
    };
    limit.filter(|limit| *limit > 0).map(Some).ok_or_else(|| {
        SqlError::unsupported("FETCH: a cursor moves forward only").hint("FETCH n, FETCH NEXT or FETCH ALL")
    })
}

/// The arguments of EXECUTE as a query.
fn selected(arguments: &[ast::Expr]) -> Result<Option<Parsed>> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let list = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Ok(super::parse(&format!("SELECT {list}"))?.pop())
}

/// What COPY … TO reads, as a query.
fn copied(source: &CopySource) -> Result<Parsed> {
    use ast::Statement as Sql;
    let sql = match source {
        CopySource::Query(query) => {
            let is_silent = match query.body.as_ref() {
                SetExpr::Insert(Sql::Insert(insert)) => insert.returning.is_none(),
                SetExpr::Update(Sql::Update(update)) => update.returning.is_none(),
                SetExpr::Delete(Sql::Delete(delete)) => delete.returning.is_none(),
                _ => false,
            };
            if is_silent {
                return Err(SqlError::unsupported("COPY query must have a RETURNING clause"));
            }
            query.to_string()
        }
        CopySource::Table { table_name, columns } if columns.is_empty() => format!("SELECT * FROM {table_name}"),
        CopySource::Table { table_name, columns } => {
            let list = columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("SELECT {list} FROM {table_name}")
        }
    };
    super::parse(&sql)?.pop().ok_or_else(|| SqlError::internal("COPY of nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(sql: &str) -> Result<Command> {
        crate::statement::parse(sql).unwrap().remove(0).command()
    }

    #[test]
    fn parameters_are_read_in_all_their_spellings() {
        for (sql, name, value) in [
            ("SET statement_timeout = 100", "statement_timeout", Some("100")),
            ("SET TIME ZONE 'UTC'", "timezone", Some("UTC")),
            ("SET NAMES 'utf8'", "client_encoding", Some("utf8")),
            ("SET search_path TO public, \"Other\", 'c d'", "search_path", Some("public, \"Other\", \"c d\"")),
            ("SET client_encoding = 'utf-8'", "client_encoding", Some("utf-8")),
            ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "timezone", Some("INTERVAL '-08:00' HOUR TO MINUTE")),
            ("SET TIME ZONE LOCAL", "timezone", None),
            ("SET foo.bar = 1", "foo.bar", Some("1")),
            ("SET extra_float_digits TO DEFAULT", "extra_float_digits", None),
        ] {
            let Parsed(Statement::Statement(parsed), _) = crate::statement::parse(sql).unwrap().remove(0) else {
                panic!()
            };
            let ast::Statement::Set(set) = *parsed else { panic!("{sql}") };
            let Assignment { name: n, value: v, .. } = Assignment::read(&set).unwrap();
            assert_eq!((&*n, v.as_deref()), (name, value), "{sql}");
        }
    }

    #[test]
    fn copy_options_have_the_defaults_of_their_format() {
        let Command::CopyIn { format, columns, .. } =
            command("COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER)").unwrap()
        else {
            panic!()
        };
        assert_eq!((format.delimiter, &*format.null, format.header), (b',', "", true));
        assert_eq!(columns, ["a", "b"]);
        for (options, freezes) in [("", false), ("(FREEZE)", true), ("(FREEZE on)", true), ("(FREEZE off)", false)] {
            let copy = command(&format!("COPY t FROM STDIN {options}")).unwrap();
            assert!(matches!(copy, Command::CopyIn { format, .. } if format.freeze == freezes), "{options}");
        }
        let Command::CopyOut { format, .. } = command("COPY t TO STDOUT").unwrap() else { panic!() };
        assert_eq!((format.delimiter, &*format.null), (b'\t', "\\N"));
        assert!(command("COPY t FROM STDIN WITH (FORMAT csv, DELIMITER '\"')").is_err());
    }
}
