//! Files as input and output of COPY, and as external tables.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions};
use futures::StreamExt;

use crate::catalog::Table;
use crate::convert::parse_column;
use crate::csv::{CsvReader, CsvWriter};
use crate::error::{Result, SqlError};
use crate::session::Session;
use crate::statement::copy::{CsvOptions, FileFormat};

/// Rows of a batch read from a file.
const BATCH_ROWS: usize = 8192;

/// Batches of a CSV file, with the columns of a table that `columns` names.
pub struct CsvBatches {
    reader: CsvReader<BufReader<File>>,
    table: Arc<Table>,
    columns: Vec<usize>,
    path: String,
    header: bool,
}

impl CsvBatches {
    pub fn open(path: &str, options: CsvOptions, table: Arc<Table>, columns: Vec<usize>) -> Result<Self> {
        let file = File::open(path).map_err(|error| SqlError::storage(format!("{path}: {error}")))?;
        let header = options.header;
        let reader = CsvReader::new(BufReader::with_capacity(1 << 20, file), options, path);
        Ok(Self { reader, table, columns, path: path.to_owned(), header })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        if std::mem::take(&mut self.header) && !self.reader.next_record()? {
            return Ok(None);
        }
        let mut texts: Vec<Vec<Option<String>>> = vec![Vec::new(); self.columns.len()];
        let mut lines = Vec::new();
        while lines.len() < BATCH_ROWS && self.reader.next_record()? {
            // A delimiter at the end of the line, as dbgen writes it, begins no field.
            let fields = match self.reader.fields() {
                n if n == self.columns.len() + 1 && self.reader.field(n - 1)?.is_none() => n - 1,
                n => n,
            };
            if fields != self.columns.len() {
                return Err(SqlError::data(format!(
                    "{}, line {}: {fields} fields, and {} columns to fill",
                    self.path,
                    self.reader.record_line(),
                    self.columns.len()
                ))
                .hint("check DELIMITER, QUOTE and the list of columns"));
            }
            for (index, texts) in texts.iter_mut().enumerate() {
                texts.push(self.reader.field(index)?.map(str::to_owned));
            }
            lines.push(self.reader.record_line());
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let place = |row: usize| format!("{}, line {}", self.path, lines[row]);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        let mut fields = Vec::with_capacity(self.columns.len());
        for (texts, column) in texts.iter().zip(&self.columns) {
            let column = &self.table.columns[*column];
            let array = parse_column(column, texts.iter().map(Option::as_deref), place)?;
            fields.push(arrow_schema::Field::new(&column.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        Ok(Some(RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays)?))
    }
}

impl Iterator for CsvBatches {
    type Item = Result<RecordBatch>;
    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Writes a stream to a file, whole or not at all: it gets its name when it is complete.
pub async fn write_file(
    mut stream: SendableRecordBatchStream,
    path: &str,
    format: FileFormat,
    csv: &CsvOptions,
) -> Result<u64> {
    let unfinished = PathBuf::from(format!("{path}.unfinished"));
    let written = async {
        let mut output = FileWriter::create(&unfinished, format, csv, &stream.schema())?;
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            output.write(&batch)?;
        }
        output.finish()?;
        std::fs::rename(&unfinished, path).map_err(|error| SqlError::storage(format!("{path}: {error}")))?;
        Ok(rows)
    }
    .await;
    if written.is_err() {
        // It may not exist; the error that is reported says more than this one could.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

enum FileWriter {
    Csv(CsvWriter<BufWriter<File>>),
    Parquet(Box<ArrowWriter<File>>),
}

impl FileWriter {
    fn create(path: &Path, format: FileFormat, csv: &CsvOptions, schema: &SchemaRef) -> Result<Self> {
        let failed = |error: std::io::Error| SqlError::storage(format!("{}: {error}", path.display()));
        let file = File::create(path).map_err(failed)?;
        Ok(match format {
            FileFormat::Csv => {
                let mut writer = CsvWriter::new(BufWriter::with_capacity(1 << 20, file), csv.clone());
                if csv.header {
                    writer.header(schema.fields().iter().map(|field| field.name().as_str())).map_err(failed)?;
                }
                Self::Csv(writer)
            }
            FileFormat::Parquet => {
                let writer = ArrowWriter::try_new(file, Arc::clone(schema), None).map_err(SqlError::storage)?;
                Self::Parquet(Box::new(writer))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Csv(writer) => writer.batch(batch),
            Self::Parquet(writer) => writer.write(batch).map_err(SqlError::storage),
        }
    }

    fn finish(self) -> Result<()> {
        let file = match self {
            Self::Csv(writer) => {
                writer.finish().and_then(|output| output.into_inner().map_err(|error| error.into_error()))
            }
            Self::Parquet(writer) => writer.into_inner().map_err(|error| std::io::Error::other(error.to_string())),
        };
        file.and_then(|file| file.sync_all()).map_err(SqlError::storage)
    }
}

impl Session {
    /// Gives a file a name in this session's queries.
    pub(crate) async fn register_file(
        &self,
        name: &str,
        path: &str,
        format: FileFormat,
        csv: &CsvOptions,
    ) -> Result<()> {
        let quoted = datafusion::common::TableReference::bare(name.to_owned());
        match format {
            FileFormat::Csv => {
                let options = CsvReadOptions::new()
                    .has_header(csv.header)
                    .delimiter(csv.delimiter)
                    .quote(csv.quote)
                    .file_extension(extension(path));
                self.context.register_csv(quoted, path, options).await?;
            }
            FileFormat::Parquet => {
                let options = ParquetReadOptions::default().file_extension(extension(path));
                self.context.register_parquet(quoted, path, options).await?;
            }
        }
        Ok(())
    }
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}
