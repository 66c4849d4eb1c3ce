//! CREATE EXTERNAL TABLE: a name for files, in one session.

use std::path::Path;

use datafusion::common::TableReference;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions};
use datafusion::sql::parser::CreateExternalTable;

use crate::names::taken;
use saki_catalog::{Result, RoleId, SqlError};
use saki_context::StatementContext;
use saki_context::access::expect_role;
use saki_context::statement::StatementResult;
use saki_postgres::FileFormat;
use saki_postgres::statement::copy::csv::CsvOptions;
use saki_postgres::statement::object_name;

pub async fn create_external_table(cx: &StatementContext<'_>, create: CreateExternalTable) -> Result<StatementResult> {
    expect_role(cx, RoleId::READ_SERVER_FILES)?;
    let (name, position) = object_name(&create.name)?;
    if cx.planner.names.is_external(&name) || cx.generation()?.catalog.kind_of(&name).is_some() {
        if create.if_not_exists {
            return Ok(StatementResult::done("CREATE EXTERNAL TABLE", 0));
        }
        return Err(taken(&name).at(position));
    }
    let [location] = &create.locations[..] else {
        return Err(SqlError::unsupported("an external table has one LOCATION").at(position));
    };
    if !create.columns.is_empty() || !create.table_partition_cols.is_empty() {
        return Err(SqlError::unsupported("columns of an external table are read from its file").at(position));
    }
    let format = FileFormat::named(&create.file_type)?;
    let mut csv = CsvOptions { header: true, ..Default::default() };
    for (key, value) in &create.options {
        let value = value.to_string();
        csv.set(key.trim_start_matches("format.").trim_start_matches("has_"), value.trim_matches('\''))?;
    }
    register_file(cx, &name, &cx.files.to_read(location)?, format, &csv).await?;
    Ok(StatementResult::done("CREATE EXTERNAL TABLE", 0))
}

/// Gives a file a name in this session's queries.
async fn register_file(
    cx: &StatementContext<'_>,
    name: &str,
    path: &str,
    format: FileFormat,
    csv: &CsvOptions,
) -> Result<()> {
    let quoted = TableReference::bare(name.to_owned());
    match format {
        FileFormat::Csv => {
            let options = CsvReadOptions::new()
                .has_header(csv.header)
                .delimiter(csv.delimiter)
                .quote(csv.quote)
                .file_extension(extension(path));
            cx.planner.context.register_csv(quoted, path, options).await?;
        }
        FileFormat::Parquet => {
            let options = ParquetReadOptions::default().file_extension(extension(path));
            cx.planner.context.register_parquet(quoted, path, options).await?;
        }
    }
    Ok(())
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}
