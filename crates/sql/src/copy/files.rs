//! Files as input and output of COPY.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use futures::StreamExt;

use super::texts::{Texts as Spelled, file_schema, with_texts};
use saki_catalog::convert::parse_column;
use saki_catalog::{Result, SqlError, Table};
use saki_parameters::SessionTime;
use saki_postgres::FileContent;
use saki_postgres::statement::copy::csv::CsvError;
use saki_postgres::statement::copy::records::{RecordFormat, RecordReader, RecordWriter};

/// Rows of a batch read from a file.
const BATCH_ROWS: usize = 8192;

/// Batches of a file of texts, with the columns of a table that `columns` names.
pub struct FileBatches {
    input: BufReader<File>,
    reader: RecordReader,
    table: Arc<Table>,
    columns: Vec<usize>,
    path: String,
    time: SessionTime,
}

/// Fields of rows as text, column by column, and the line that each row begins on.
struct Texts {
    columns: Vec<Vec<Option<String>>>,
    lines: Vec<u64>,
}

impl FileBatches {
    pub fn open(
        path: &str,
        format: RecordFormat,
        table: Arc<Table>,
        columns: Vec<usize>,
        time: SessionTime,
    ) -> Result<Self> {
        let file = File::open(path).map_err(|error| SqlError::of_file(path, error))?;
        let (input, reader) = (BufReader::with_capacity(1 << 20, file), RecordReader::new(format));
        Ok(Self { input, reader, table, columns, path: path.to_owned(), time })
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let mut texts = Texts { columns: vec![Vec::new(); self.columns.len()], lines: Vec::new() };
        while texts.lines.len() < BATCH_ROWS && self.next_record()? {
            self.take_record(&mut texts)?;
        }
        if texts.lines.is_empty() { Ok(None) } else { self.batch(&texts).map(Some) }
    }

    /// Reads on to the next record; `false` at the end.
    fn next_record(&mut self) -> Result<bool> {
        loop {
            let mut piece = self.input.fill_buf().map_err(|error| SqlError::of_file(&self.path, error))?;
            let length = piece.len();
            let found = match length {
                0 => self.reader.finish(),
                _ => self.reader.read(&mut piece),
            };
            let used = length - piece.len();
            self.input.consume(used);
            let is_found = found.map_err(|error| bad(&self.path, &error))?;
            if is_found || length == 0 {
                return Ok(is_found);
            }
        }
    }

    fn take_record(&self, texts: &mut Texts) -> Result<()> {
        let field = |index| self.reader.field(index).map_err(|error| bad(&self.path, &error));
        // A delimiter at the end of the line, as dbgen writes it, begins no field.
        let fields = match self.reader.fields() {
            n if n == self.columns.len() + 1 && field(n - 1)?.is_none() => n - 1,
            n => n,
        };
        if fields != self.columns.len() {
            return Err(SqlError::data(format!(
                "{}, line {}: {fields} fields, and {} columns to fill",
                self.path,
                self.reader.record_line(),
                self.columns.len()
            ))
            .hint("check FORMAT, DELIMITER and the list of columns"));
        }
        for (index, column) in texts.columns.iter_mut().enumerate() {
            column.push(field(index)?.map(str::to_owned));
        }
        texts.lines.push(self.reader.record_line());
        Ok(())
    }

    fn batch(&self, texts: &Texts) -> Result<RecordBatch> {
        let place = |row: usize| format!("{}, line {}", self.path, texts.lines[row]);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        let mut fields = Vec::with_capacity(self.columns.len());
        for (texts, column) in texts.columns.iter().zip(&self.columns) {
            let column = &self.table.columns[*column];
            let array = parse_column(column, texts.iter().map(Option::as_deref), place, &self.time)?;
            fields.push(Field::new(&column.name, array.data_type().clone(), true));
            arrays.push(array);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn bad(path: &str, error: &CsvError) -> SqlError {
    SqlError::data(format!("{path}, {error}"))
}

/// Writes batches to a file of texts.
struct RecordFile {
    output: BufWriter<File>,
    writer: RecordWriter,
    time: SessionTime,
}

impl RecordFile {
    fn create(file: File, format: &RecordFormat, schema: &Schema, time: &SessionTime) -> std::io::Result<Self> {
        let (mut output, mut writer) = (BufWriter::with_capacity(1 << 20, file), RecordWriter::new(format.clone()));
        if format.header() {
            writer.header(schema.fields().iter().map(|field| field.name().as_str()), &mut output)?;
        }
        Ok(Self { output, writer, time: time.clone() })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns().iter().map(|column| Spelled::of(column, &self.time.style));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for column in &columns {
                text.clear();
                let value = column.append(row, &mut text).then_some(text.as_bytes());
                self.writer.field(value, &mut self.output)?;
            }
            self.writer.end_record(&mut self.output)?;
        }
        Ok(())
    }

    fn finish(self) -> std::io::Result<File> {
        self.output.into_inner().map_err(|error| error.into_error())
    }
}

/// What a file is called until it is complete.
pub fn unfinished(path: &str) -> String {
    format!("{path}.unfinished")
}

/// Writes a stream to a file, whole or not at all: it gets its name when it is complete.
pub async fn write_file(
    mut stream: SendableRecordBatchStream,
    path: &str,
    content: &FileContent,
    time: &SessionTime,
) -> Result<u64> {
    let unfinished = PathBuf::from(unfinished(path));
    let written = async {
        let schema = match content {
            FileContent::Parquet => file_schema(&stream.schema()),
            FileContent::Records(_) => stream.schema(),
        };
        let mut output = FileWriter::create(&unfinished, content, &schema, time)?;
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            output.write(&batch)?;
        }
        output.finish()?;
        std::fs::rename(&unfinished, path).map_err(|error| SqlError::of_file(path, error))?;
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
    Records(RecordFile),
    Parquet(Box<ArrowWriter<File>>, SchemaRef),
}

impl FileWriter {
    fn create(path: &Path, content: &FileContent, schema: &SchemaRef, time: &SessionTime) -> Result<Self> {
        let failed = |error| SqlError::of_file(path.display(), error);
        // What a copy that was cut off has left goes; anything else under the name is not written through.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let file = File::create_new(path).map_err(failed)?;
        Ok(match content {
            FileContent::Records(format) => {
                Self::Records(RecordFile::create(file, format, schema, time).map_err(failed)?)
            }
            FileContent::Parquet => {
                let writer = ArrowWriter::try_new(file, Arc::clone(schema), None).map_err(SqlError::storage)?;
                Self::Parquet(Box::new(writer), Arc::clone(schema))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Records(writer) => writer.write(batch),
            Self::Parquet(writer, schema) => writer.write(&with_texts(batch, schema)?).map_err(SqlError::storage),
        }
    }

    fn finish(self) -> Result<()> {
        let file = match self {
            Self::Records(writer) => writer.finish()?,
            Self::Parquet(writer, _) => writer.into_inner().map_err(SqlError::storage)?,
        };
        Ok(file.sync_all()?)
    }
}
