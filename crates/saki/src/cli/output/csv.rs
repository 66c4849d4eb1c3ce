//! Comma-separated values, as `COPY … WITH (FORMAT csv, HEADER)` reads them back.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use saki_sql::CsvOptions;

use super::RowWriter;
use super::value::Cells;

pub struct CsvWriter {
    records: saki_sql::CsvWriter,
    /// Until it is written.
    header: Option<Vec<String>>,
    /// A value before it is quoted.
    text: String,
}

impl CsvWriter {
    pub fn new(schema: &SchemaRef) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        let records = saki_sql::CsvWriter::new(CsvOptions::default());
        Self { records, header: Some(names), text: String::new() }
    }

    fn write_header(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let Some(names) = self.header.take() else { return Ok(()) };
        self.records.header(names.iter().map(String::as_str), &mut &mut *out)
    }
}

impl RowWriter for CsvWriter {
    fn write(&mut self, out: &mut dyn Write, batch: &RecordBatch) -> io::Result<()> {
        self.write_header(out)?;
        let columns: Vec<Cells> = batch.columns().iter().map(Cells::new).collect();
        let mut line = Vec::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for cells in &columns {
                self.text.clear();
                let value = cells.append(row, &mut self.text).then_some(self.text.as_bytes());
                self.records.field(value, &mut line)?;
            }
            self.records.end_record(&mut line)?;
            out.write_all(&line)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write_header(out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn null_and_empty_differ_and_quotes_are_doubled() {
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a,b"), None, Some(""), Some("say \"x\"")]));
        let batch = RecordBatch::try_from_iter([("w", words.clone()), ("v", words)]).unwrap();
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&batch.schema());
        writer.write(&mut out, &batch).unwrap();
        writer.finish(&mut out).unwrap();
        let expected = "w,v\n\"a,b\",\"a,b\"\n,\n\"\",\"\"\n\"say \"\"x\"\"\",\"say \"\"x\"\"\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
