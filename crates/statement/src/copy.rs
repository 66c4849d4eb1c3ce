//! COPY table [(columns)] FROM 'file' and COPY {table | (query)} TO 'file', with their options.

use datafusion::sql::sqlparser::ast::{
    self, CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident,
};

use super::{name_of, object_name};
use saki_catalog::{Position, Result, SqlError};
use saki_store::CsvOptions;

/// What a file holds.
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

    fn of_path(path: &str) -> Self {
        if path.to_ascii_lowercase().ends_with(".parquet") { Self::Parquet } else { Self::Csv }
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
    pub format: FileFormat,
    pub csv: CsvOptions,
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
        let mut format = FileFormat::of_path(&path);
        let mut csv = CsvOptions::default();
        let mut escape = None;
        for option in &options {
            match option {
                CopyOption::Format(name) => format = FileFormat::named(&name_of(name))?,
                CopyOption::Header(header) => csv.header = *header,
                CopyOption::Delimiter(c) => csv.set("delimiter", &c.to_string())?,
                CopyOption::Quote(c) => csv.set("quote", &c.to_string())?,
                CopyOption::Escape(c) => escape = Some(*c),
                CopyOption::Null(text) => csv.null.clone_from(text),
                CopyOption::Encoding(name)
                    if name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8") => {}
                other => return Err(SqlError::unsupported(format!("COPY option {other} is not supported"))),
            }
        }
        for option in &legacy_options {
            match option {
                CopyLegacyOption::Csv(parts) => {
                    format = FileFormat::Csv;
                    for part in parts {
                        match part {
                            CopyLegacyCsvOption::Header => csv.header = true,
                            CopyLegacyCsvOption::Quote(c) => csv.set("quote", &c.to_string())?,
                            CopyLegacyCsvOption::Escape(c) => escape = Some(*c),
                            other => {
                                return Err(SqlError::unsupported(format!("COPY option {other} is not supported")));
                            }
                        }
                    }
                }
                CopyLegacyOption::Header => csv.header = true,
                CopyLegacyOption::Parquet => format = FileFormat::Parquet,
                CopyLegacyOption::Delimiter(c) => csv.set("delimiter", &c.to_string())?,
                CopyLegacyOption::Null(text) => csv.null.clone_from(text),
                other => return Err(SqlError::unsupported(format!("COPY option {other} is not supported"))),
            }
        }
        if let Some(c) = escape {
            csv.set("escape", &c.to_string())?;
        }
        Ok(Self { source, to, path, format, csv })
    }
}

#[cfg(test)]
mod tests {
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
        let CsvOptions { header, delimiter, quote, escape, null } = &copy.csv;
        let letters = [*delimiter, *quote, *escape].map(char::from).iter().collect::<String>();
        let direction = if copy.to { "to" } else { "from" };
        let header = if *header { " header" } else { "" };
        format!("{source} {direction} {} {:?} {letters}{header} {null:?}", copy.path, copy.format)
    }

    #[test]
    fn tables_and_queries_are_copied_in_both_directions() {
        check(
            &[
                ("COPY t FROM 'f.csv'", "t from f.csv Csv ,\"\" \"\""),
                ("COPY t TO 'f.csv'", "t to f.csv Csv ,\"\" \"\""),
                ("COPY s.\"T\" (a, \"B\") FROM 'f'", "s.T(a,B) from f Csv ,\"\" \"\""),
                ("COPY (SELECT 1) TO 'f.csv'", "SELECT 1 to f.csv Csv ,\"\" \"\""),
                ("COPY t FROM 'f.parquet'", "t from f.parquet Parquet ,\"\" \"\""),
                ("COPY t FROM 'F.PARQUET'", "t from F.PARQUET Parquet ,\"\" \"\""),
                ("COPY t FROM 'f.parquet' WITH (FORMAT csv)", "t from f.parquet Csv ,\"\" \"\""),
                ("COPY t TO 'f' (FORMAT parquet)", "t to f Parquet ,\"\" \"\""),
                ("COPY t TO 'f' (FORMAT 'csv')", "t to f Csv ,\"\" \"\""),
            ],
            shown,
        );
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        check(
            &[
                ("COPY t FROM 'f' WITH (HEADER)", "t from f Csv ,\"\" header \"\""),
                ("COPY t FROM 'f' WITH (HEADER true)", "t from f Csv ,\"\" header \"\""),
                ("COPY t FROM 'f' WITH (HEADER false)", "t from f Csv ,\"\" \"\""),
                ("COPY t FROM 'f' (DELIMITER '|')", "t from f Csv |\"\" \"\""),
                ("COPY t FROM 'f' (DELIMITER E'\\t')", "t from f Csv \t\"\" \"\""),
                ("COPY t FROM 'f' (QUOTE '''')", "t from f Csv ,'' \"\""),
                ("COPY t FROM 'f' (ESCAPE '\\')", "t from f Csv ,\"\\ \"\""),
                ("COPY t FROM 'f' (ESCAPE '\\', QUOTE '''')", "t from f Csv ,'\\ \"\""),
                ("COPY t FROM 'f' (NULL 'NULL')", "t from f Csv ,\"\" \"NULL\""),
                ("COPY t FROM 'f' (ENCODING 'UTF8')", "t from f Csv ,\"\" \"\""),
                ("COPY t FROM 'f' (ENCODING 'utf-8')", "t from f Csv ,\"\" \"\""),
                ("COPY t FROM 'f' CSV HEADER", "t from f Csv ,\"\" header \"\""),
                ("COPY t FROM 'f' WITH CSV HEADER QUOTE AS ''''", "t from f Csv ,'' header \"\""),
                ("COPY t FROM 'f' DELIMITER AS ';' NULL AS '-'", "t from f Csv ;\"\" \"-\""),
                ("COPY t FROM 'f' DELIMITER ';'", "t from f Csv ;\"\" \"\""),
            ],
            shown,
        );
    }

    #[test]
    fn what_copy_cannot_do_here_is_refused() {
        check(
            &[
                ("COPY t FROM 'f' (FORMAT text)", "0A000"),
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
