//! The planner's errors as a statement's, and back.

use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;

use super::conditions::{Signs, VALUES, clean, first, of_arrow, out_of_memory};
use super::{ErrorKind, Position, SqlError, undefined};
use crate::PUBLIC;

const PLANNING: Signs = &[
    ("not allowed in the WHERE", "42803"),
    ("cannot be nested", "42803"),
    // Ours, within what the planner says of the function.
    ("types cannot be matched", "42804"),
    ("boolean", "42804"),
    ("only return one column", "42601"),
    ("LIMIT must be", "2201W"),
    ("OFFSET must be", "2201X"),
    ("out of bounds, specified", "42P10"),
    (" not found", "42P01"),
    ("Invalid function", "42883"),
    ("does not support zero arguments", "42883"),
    ("Function '", "42883"),
    ("No function matches", "42883"),
    ("Failed to coerce", "42883"),
    ("Cannot coerce", "42883"),
    ("Cannot infer common argument type", "42883"),
    ("Cannot get result type", "42883"),
    ("must be in GROUP BY", "42803"),
    ("must appear in the GROUP BY", "42803"),
    ("could not be resolved from available columns", "42803"),
    ("more than one row", "21000"),
    ("incompatible", "42804"),
    ("type Boolean", "42804"),
    ("different number of columns", "42601"),
    ("not in select list", "42P10"),
    ("Cannot find column with position", "42P10"),
    ("SELECT DISTINCT ON expressions must match", "42P10"),
    ("For SELECT DISTINCT, ORDER BY", "42P10"),
    ("Inconsistent data length across values list", "42601"),
    ("specified more than once", "42712"),
    ("Cannot infer common string type", "42883"),
    ("columns but only", "42P10"),
    ("FILTER clause can only be used", "0A000"),
    ("does not exist", "42704"),
    ("is not defined!", "42704"),
];

/// The condition of an error, if one is known that is more exact than its kind's.
fn condition(error: &DataFusionError) -> Option<&'static str> {
    match error {
        DataFusionError::SchemaError(schema, _) => Some(match schema.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
                Some(table) if valid_fields.iter().all(|valid| valid.relation.as_ref() != Some(table)) => "42P01",
                _ => "42703",
            },
            SchemaError::AmbiguousReference { .. } => "42702",
            SchemaError::DuplicateQualifiedField { .. } => "42712",
            SchemaError::DuplicateUnqualifiedField { .. } => "42701",
        }),
        DataFusionError::ArrowError(arrow, _) => of_arrow(arrow),
        DataFusionError::Plan(message) => first(message, PLANNING),
        DataFusionError::Execution(message) => first(message, VALUES),
        DataFusionError::NotImplemented(message) if message.contains("Decimal scale") => Some("22003"),
        DataFusionError::ResourcesExhausted(_) => Some("53200"),
        DataFusionError::External(other) if other.to_string().starts_with("regex parse error") => Some("2201B"),
        _ => None,
    }
}

/// A name that means no column, or several, in PostgreSQL's words.
fn of_schema(wrong: &SchemaError) -> Option<String> {
    let is_column = |field: &Column| match &field.relation {
        None => format!("column {:?} does not exist", field.name),
        Some(table) => format!("column {}.{} does not exist", table.table(), field.name),
    };
    Some(match wrong {
        SchemaError::FieldNotFound { field, valid_fields } => match &field.relation {
            Some(table) if valid_fields.iter().all(|valid| valid.relation.as_ref() != Some(table)) => {
                format!("missing FROM-clause entry for table {:?}", table.table())
            }
            _ => is_column(field),
        },
        SchemaError::AmbiguousReference { field } => format!("column reference {:?} is ambiguous", field.name),
        _ => return None,
    })
}

/// What the planner says of a table that there is not, in PostgreSQL's words: with its schema where that is not the
/// one in which names are looked for.
fn no_relation(message: &str) -> Option<String> {
    let name = message.strip_prefix("table '")?.strip_suffix("' not found")?;
    let name = match name.splitn(3, '.').collect::<Vec<_>>()[..] {
        [_, PUBLIC, table] => table.to_owned(),
        [_, schema, table] => format!("{schema}.{table}"),
        _ => name.to_owned(),
    };
    Some(undefined(&name).message)
}

/// What the planner says of a function that there is not, in PostgreSQL's words; of ours that does not take types, what
/// it has said itself.
fn no_function(message: &str) -> Option<String> {
    if let Some((_, said)) = message.split_once("user-defined coercion failed with: External error: ") {
        return Some(clean(said));
    }
    let (name, _) = message.strip_prefix("Invalid function '")?.split_once('\'')?;
    Some(format!("function {name} does not exist"))
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let position =
            error.diagnostic().and_then(|d| d.span).map(|s| Position { line: s.start.line, column: s.start.column });
        let root = error.find_root();
        if let DataFusionError::External(inner) = root
            && let Some(ours) = inner.downcast_ref::<SqlError>()
        {
            return ours.clone().at(position);
        }
        if let DataFusionError::ResourcesExhausted(reason) = root {
            if reason.contains(saki_base::memory::OF_THE_SERVER) {
                return out_of_memory(clean(reason));
            }
            return Self::invalid(format!("the query needs more memory than saki.query_memory: {}", clean(reason)))
                .code("53200")
                .hint("SET saki.query_memory to more, or let fewer rows be joined or grouped");
        }
        let kind = match root {
            DataFusionError::SQL(..) => ErrorKind::Syntax,
            DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
            DataFusionError::Plan(_) | DataFusionError::SchemaError(..) | DataFusionError::Configuration(_) => {
                ErrorKind::Invalid
            }
            DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => ErrorKind::Data,
            DataFusionError::IoError(_) | DataFusionError::ParquetError(_) => ErrorKind::Storage,
            DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => ErrorKind::Internal,
            _ => ErrorKind::Invalid,
        };
        let message = match root {
            DataFusionError::SchemaError(wrong, _) => of_schema(wrong).unwrap_or_else(|| clean(&root.to_string())),
            DataFusionError::Plan(message) => {
                no_relation(message).or_else(|| no_function(message)).unwrap_or_else(|| clean(message))
            }
            _ => clean(&root.to_string()),
        };
        let (message, stated) = take_position(&message);
        let code = condition(root);
        Self { position: position.or(stated), code, ..Self::new(kind, message) }
    }
}

/// Errors of the layers below in what a plan runs. `?` cannot go from one library's error to another's by way of ours.
pub trait InPlan<T> {
    /// # Errors
    /// The layer's, as a statement's within the planner's.
    fn in_plan(self) -> Result<T, DataFusionError>;
}

impl<T, E: Into<SqlError>> InPlan<T> for Result<T, E> {
    fn in_plan(self) -> Result<T, DataFusionError> {
        self.map_err(|error| error.into().into())
    }
}

impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        let text = clean(&error.to_string());
        let (message, position) = take_position(&text);
        let refused = Self { position, ..Self::new(ErrorKind::Syntax, message) };
        match error {
            ParserError::RecursionLimitExceeded => refused.code("54001"),
            _ => refused,
        }
    }
}

/// Splits the parser's ` at Line: 1, Column: 8` off a message.
fn take_position(message: &str) -> (String, Option<Position>) {
    let Some(start) = message.find(" at Line: ") else { return (message.to_owned(), None) };
    let numbers: Vec<u64> = message[start..]
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    match numbers[..] {
        [line, column, ..] => (message[..start].to_owned(), Some(Position { line, column })),
        _ => (message.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parsers_position_becomes_ours() {
        let (message, position) = take_position("Expected: an expression, found: FROM at Line: 2, Column: 8");
        assert_eq!(message, "Expected: an expression, found: FROM");
        assert_eq!(position, Some(Position { line: 2, column: 8 }));
    }

    #[test]
    fn functions_that_there_are_not_are_told_in_postgresqls_words() {
        let told = |message: &str| {
            let error = SqlError::from(DataFusionError::Plan(message.to_owned()));
            (error.message.clone(), error.sqlstate().to_owned())
        };
        let undefined = |name: &str| (format!("function {name} does not exist"), "42883".to_owned());
        assert_eq!(told("Invalid function 'moad'.\nDid you mean 'mod'?"), undefined("moad"));
        let refused =
            "Function 'f' user-defined coercion failed with: External error: function f does not exist. No function";
        assert_eq!(told(refused).0, "function f does not exist. No function");
    }

    #[test]
    fn names_that_mean_nothing_are_told_in_postgresqls_words() {
        let table = |name: &str| {
            let error = SqlError::from(DataFusionError::Plan(format!("table 'saki.{name}' not found")));
            (error.message.clone(), error.sqlstate().to_owned())
        };
        assert_eq!(table("public.Or.der"), (r#"relation "Or.der" does not exist"#.to_owned(), "42P01".to_owned()));
        assert_eq!(table("shop.order").0, r#"relation "shop.order" does not exist"#);
        let column = |named: Column, valid: Vec<Column>| {
            let missing = SchemaError::FieldNotFound { field: Box::new(named), valid_fields: valid };
            let error = SqlError::from(DataFusionError::SchemaError(Box::new(missing), Box::new(None)));
            (error.message.clone(), error.sqlstate().to_owned())
        };
        let of = |table: &str, name: &str| Column::new(Some(table.to_owned()), name);
        let (t_a, t_b, u_b) = (of("t", "a"), of("t", "b"), of("u", "b"));
        assert_eq!(column(t_b, vec![t_a.clone()]), ("column t.b does not exist".to_owned(), "42703".to_owned()));
        assert_eq!(
            column(u_b, vec![t_a.clone()]),
            (r#"missing FROM-clause entry for table "u""#.to_owned(), "42P01".to_owned())
        );
        let plain = column(Column::from_name("b"), vec![t_a]);
        assert_eq!(plain, (r#"column "b" does not exist"#.to_owned(), "42703".to_owned()));
    }

    #[test]
    fn a_layers_error_in_a_plan_is_the_statements_error_for_it() {
        let below: Result<(), _> = Err(saki_vector::VectorError::DivisionByZero);
        let error = SqlError::from(below.in_plan().unwrap_err());
        assert_eq!((error.kind, error.sqlstate()), (ErrorKind::Data, "22012"));
    }

    #[test]
    fn our_errors_survive_the_way_through_a_plan() {
        let ours = SqlError::constraint("duplicate key").hint("use ON CONFLICT");
        assert_eq!(SqlError::from(DataFusionError::from(ours.clone())), ours);
    }
}
