//! COPY table [(columns)] FROM 'file' and COPY {table | (query)} TO 'file', with their options.

pub mod csv;
mod format;
pub mod lines;
pub mod records;

use datafusion::sql::sqlparser::ast::{self, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident};

pub use self::format::{CopyFormat, CopyKind};

use self::records::RecordFormat;
use super::{name_of, object_name};
use saki_catalog::{Position, Result, SqlError};

/// What an external table's file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    Csv,
    Parquet,
}

impl FileFormat {
    pub fn named(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            _ => Err(SqlError::unsupported(format!("file format {name} is not supported")).hint("csv and parquet are")),
        }
    }
}

/// What a file of COPY holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileContent {
    Records(RecordFormat),
    Parquet,
}

impl FileContent {
    /// What its options say; else what its name does: `.csv` and `.parquet`. Any other has PostgreSQL's text format.
    fn of(path: &str, options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self> {
        let path = path.to_ascii_lowercase();
        let named = |name: &Ident| name_of(name).eq_ignore_ascii_case("parquet");
        let is_parquet = |option: &CopyOption| matches!(option, CopyOption::Format(name) if named(name));
        let is_said = options.iter().any(|option| matches!(option, CopyOption::Format(_)))
            || legacy.iter().any(|option| matches!(option, CopyLegacyOption::Csv(_) | CopyLegacyOption::Binary));
        let said = options.iter().find(|option| !is_parquet(option));
        if options.iter().any(is_parquet)
            || legacy.contains(&CopyLegacyOption::Parquet)
            || !is_said && path.ends_with(".parquet")
        {
            return match said {
                Some(other) => Err(SqlError::unsupported(format!("COPY option {other} is not supported of Parquet"))),
                None => Ok(Self::Parquet),
            };
        }
        let kind = if path.ends_with(".csv") { CopyKind::Csv } else { CopyKind::Text };
        let format = CopyFormat::read(options, legacy, kind)?;
        if format.freeze {
            return Err(SqlError::unsupported("COPY option FREEZE is not supported of files"));
        }
        let binary = || SqlError::unsupported("COPY of a file in the binary format is not supported");
        format.records().map(Self::Records).ok_or_else(|| binary().hint("text, csv and parquet are"))
    }
}

/// What is copied, in either direction.
pub enum Source {
    Table { name: String, position: Option<Position>, columns: Vec<Ident> },
    Query(Box<ast::Query>),
}

/// A COPY statement.
pub struct Copy {
    pub source: Source,
    pub to: bool,
    pub path: String,
    pub content: FileContent,
}

impl Copy {
    pub fn read(statement: ast::Statement) -> Result<Self> {
        let ast::Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(SqlError::internal("not a COPY statement"));
        };
        let source = match source {
            CopySource::Table { table_name, columns } => {
                let (name, position) = object_name(&table_name)?;
                Source::Table { name, position, columns }
            }
            CopySource::Query(query) => Source::Query(query),
        };
        let CopyTarget::File { filename: path } = target else {
            return Err(
                SqlError::unsupported(format!("COPY with {target} is not supported here")).hint("give a file name")
            );
        };
        let content = FileContent::of(&path, &options, &legacy_options)?;
        Ok(Self { source, to, path, content })
    }
}

#[cfg(test)]
mod tests {
    use super::csv::CsvOptions;
    use super::lines::LineOptions;
    use super::*;
    use crate::fixture::{check, code, parsed};

    fn shown(sql: &str) -> String {
        let copy = match Copy::read(parsed(sql)) {
            Ok(copy) => copy,
            Err(error) => return code(&error),
        };
        let source = match &copy.source {
            Source::Table { name, columns, .. } if columns.is_empty() => name.clone(),
            Source::Table { name, columns, .. } => {
                format!("{name}({})", columns.iter().map(name_of).collect::<Vec<_>>().join(","))
            }
            Source::Query(query) => query.to_string(),
        };
        let direction = if copy.to { "to" } else { "from" };
        let content = match &copy.content {
            FileContent::Parquet => "parquet".to_owned(),
            FileContent::Records(RecordFormat::Lines(LineOptions { header, delimiter, null })) => {
                let header = if *header { " header" } else { "" };
                format!("text {:?}{header} {null:?}", char::from(*delimiter))
            }
            FileContent::Records(RecordFormat::Csv(CsvOptions { header, delimiter, quote, escape, null })) => {
                let letters = [*delimiter, *quote, *escape].map(char::from).iter().collect::<String>();
                let header = if *header { " header" } else { "" };
                format!("csv {letters}{header} {null:?}")
            }
        };
        format!("{source} {direction} {} {content}", copy.path)
    }

    #[test]
    fn tables_and_queries_are_copied_in_both_directions() {
        check(
            &[
                ("COPY t FROM 'f.csv'", "t from f.csv csv ,\"\" \"\""),
                ("COPY t TO 'F.CSV'", "t to F.CSV csv ,\"\" \"\""),
                ("COPY s.\"T\" (a, \"B\") FROM 'f'", "s.T(a,B) from f text '\\t' \"\\\\N\""),
                ("COPY (SELECT 1) TO 'f.csv'", "SELECT 1 to f.csv csv ,\"\" \"\""),
                ("COPY t FROM 'f.parquet'", "t from f.parquet parquet"),
                ("COPY t FROM 'F.PARQUET'", "t from F.PARQUET parquet"),
                ("COPY t FROM 'f.parquet' WITH (FORMAT csv)", "t from f.parquet csv ,\"\" \"\""),
                ("COPY t TO 'f' (FORMAT parquet)", "t to f parquet"),
                ("COPY t TO 'f' (FORMAT 'csv')", "t to f csv ,\"\" \"\""),
                ("COPY t TO 'f.csv' (FORMAT text)", "t to f.csv text '\\t' \"\\\\N\""),
            ],
            shown,
        );
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        check(
            &[
                ("COPY t FROM 'f' WITH (HEADER)", "t from f text '\\t' header \"\\\\N\""),
                ("COPY t FROM 'f' WITH (HEADER false)", "t from f text '\\t' \"\\\\N\""),
                ("COPY t FROM 'f.csv' WITH (HEADER true)", "t from f.csv csv ,\"\" header \"\""),
                ("COPY t FROM 'f' (DELIMITER '|')", "t from f text '|' \"\\\\N\""),
                ("COPY t FROM 'f.csv' (DELIMITER E'\\t')", "t from f.csv csv \t\"\" \"\""),
                ("COPY t FROM 'f.csv' (QUOTE '''')", "t from f.csv csv ,'' \"\""),
                ("COPY t FROM 'f.csv' (ESCAPE '\\')", "t from f.csv csv ,\"\\ \"\""),
                ("COPY t FROM 'f.csv' (ESCAPE '\\', QUOTE '''')", "t from f.csv csv ,'\\ \"\""),
                ("COPY t FROM 'f' (NULL 'NULL')", "t from f text '\\t' \"NULL\""),
                ("COPY t FROM 'f' (ENCODING 'UTF8')", "t from f text '\\t' \"\\\\N\""),
                ("COPY t FROM 'f' CSV HEADER", "t from f csv ,\"\" header \"\""),
                ("COPY t FROM 'f' WITH CSV HEADER QUOTE AS ''''", "t from f csv ,'' header \"\""),
                ("COPY t FROM 'f' DELIMITER AS ';' NULL AS '-'", "t from f text ';' \"-\""),
            ],
            shown,
        );
    }

    #[test]
    fn what_copy_cannot_do_here_is_refused() {
        check(
            &[
                ("COPY t FROM 'f' (QUOTE '''')", "0A000"),
                ("COPY t FROM 'f' (FORMAT parquet, HEADER)", "0A000"),
                ("COPY t FROM 'f' (FORMAT binary)", "0A000"),
                ("COPY t FROM 'f' (ENCODING 'LATIN1')", "0A000"),
                ("COPY t FROM 'f' (FORCE_NOT_NULL (a))", "0A000"),
                ("COPY t FROM 'f' (FREEZE on)", "0A000"),
                ("COPY t FROM 'f' (FREEZE)", "0A000"),
                ("COPY t TO STDOUT", "0A000"),
                ("COPY t TO PROGRAM 'cat'", "0A000"),
                ("COPY x.y.t TO 'f'", "0A000 at 1:10"),
            ],
            shown,
        );
    }

    #[test]
    fn formats_are_known_in_any_case() {
        assert_eq!(FileFormat::named("CSV").unwrap(), FileFormat::Csv);
        assert_eq!(FileFormat::named("Parquet").unwrap(), FileFormat::Parquet);
        let error = FileFormat::named("orc").unwrap_err();
        assert_eq!((error.sqlstate(), error.hint.as_deref()), ("0A000", Some("csv and parquet are")));
    }

    #[test]
    fn a_statement_that_is_no_copy_is_an_internal_error() {
        assert_eq!(Copy::read(parsed("SELECT 1")).map(|_| ()).unwrap_err().sqlstate(), "XX000");
    }
}
